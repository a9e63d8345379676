/* SPDX-License-Identifier: MIT */
/*
 * Slots: a table of pointers, addressed by tokens.
 *
 * Code outside the owner of a table keeps an object only as a token {slot, generation}: of
 * the registry its objects, of the view the open files. The generation of a slot goes up whenever its object leaves, so the token of a removed
 * object finds nothing, even when the slot is in use again. Slots are reused oldest
 * first, so generations go up slowly. A generation is never zero.
 */
#pragma once

#include <stdint.h>

struct slot {
	void *object; /* NULL: free */
	uint32_t generation;
	uint32_t next_free;
};

struct handle_table {
	struct slot *table;
	uint32_t n_table; /* slots ever used */
	uint32_t capacity;
	uint32_t first_free, last_free; /* UINT32_MAX: none */
	uint32_t n_used;
	uint32_t first_generation; /* of a new slot */
};

#define SLOTS_MAX (1u << 23)

void handle_table_init(struct handle_table *slots);
void handle_table_deinit(
	struct handle_table *slots); /* asserts that the table is empty */

/*
 * A table that goes on where an earlier process had one: tokens of that process, but for
 * objects that are put back, find nothing. The table is empty.
 */
void handle_table_begin(struct handle_table *slots, uint32_t first_generation);

/*
 * Puts an object back; in the order of slots. Returns: 0; -EEXIST when the slot is not
 * behind all others; -ENOMEM.
 */
int handle_table_put(struct handle_table *slots, void *object, uint32_t slot,
		     uint32_t generation);

/* Returns: 0; -ENOMEM. */
int handle_table_add(struct handle_table *slots, void *object, uint32_t *ret_slot,
		     uint32_t *ret_generation);
/* Makes room for n more. Returns: 0; -ENOMEM. */
int handle_table_reserve(struct handle_table *slots, uint32_t n);
void handle_table_remove(struct handle_table *slots, uint32_t slot);

/* The object; NULL when the slot has another generation. */
void *handle_table_get(const struct handle_table *slots, uint32_t slot,
		       uint32_t generation);

/* The first object at or after *slot, and sets *slot to its slot. NULL at the end. */
void *handle_table_next(const struct handle_table *slots, uint32_t *slot);
