/* SPDX-License-Identifier: MIT */
/*
 * Slots: a table of pointers, addressed by tokens.
 *
 * Code outside the registry keeps an object only as a token {slot, generation}. The
 * generation of a slot goes up whenever its object leaves, so the token of a removed
 * object finds nothing, even when the slot is in use again. Slots are reused oldest
 * first, so generations go up slowly. A generation is never zero.
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
	uint32_t n_table; /* slots ever used */
	uint32_t capacity;
	uint32_t first_free, last_free; /* UINT32_MAX: none */
	uint32_t n_used;
};

#define SLOTS_MAX (1u << 24)

void slots_init(struct slots *slots);
void slots_deinit(struct slots *slots); /* asserts that the table is empty */

/* Returns: 0; -ENOMEM. */
int slots_add(struct slots *slots, void *object, uint32_t *ret_slot,
	      uint32_t *ret_generation);
void slots_remove(struct slots *slots, uint32_t slot);

/* The object; NULL when the slot has another generation. */
void *slots_get(const struct slots *slots, uint32_t slot, uint32_t generation);

/* The first object at or after *slot, and sets *slot to its slot. NULL at the end. */
void *slots_next(const struct slots *slots, uint32_t *slot);
