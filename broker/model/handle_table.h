/* SPDX-License-Identifier: MIT */
/*
 * Slots: a table of pointers that tokens point into.
 *
 * A token {slot, generation} is all that is kept of an object outside the registry. The
 * generation of a slot goes up whenever its object leaves, so a token of something gone
 * finds nothing, whatever stands there now. Slots are reused oldest first, so that a
 * generation lasts; it never becomes zero.
 */
#pragma once

#include "base/def.h"

struct slot {
	void *object; /* NULL: free */
	uint32_t generation;
	uint32_t next_free;
};

struct slots {
	struct slot *table;
	uint32_t n_table; /* made so far */
	uint32_t capacity;
	uint32_t first_free, last_free; /* UINT32_MAX: none */
	uint32_t n_used;
};

#define SLOTS_MAX (1u << 24)

void slots_init(struct slots *slots);
void slots_deinit(struct slots *slots); /* asserts that it is empty */

/* Returns: 0; -ENOMEM. */
int slots_add(struct slots *slots, void *object, uint32_t *ret_slot,
	      uint32_t *ret_generation);
void slots_remove(struct slots *slots, uint32_t slot);

/* The object, NULL when that generation has gone. */
void *slots_get(const struct slots *slots, uint32_t slot, uint32_t generation);

/* The first object at or behind *slot, whose place *slot becomes; NULL at the end. */
void *slots_next(const struct slots *slots, uint32_t *slot);
