/* SPDX-License-Identifier: MIT */
/*
 * Slots: a table of pointers, addressed by tokens.
 *
 * The registry has tables of its objects, and the view has a table of open files. Code
 * outside the table's owner keeps an object only as a token {slot, generation}. The
 * generation of a slot goes up whenever its object leaves, so the token of a removed
 * object finds nothing, even when the slot is in use again. The slot that was freed first
 * is reused first, so generations go up slowly. A generation is never zero.
 *
 * Tokens may be older than the process. So each process, or boot, has GENERATIONS of its
 * own, and a slot that has used them up is used no more: no token of one boot is ever
 * met in the next.
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

#define GENERATIONS (1u << 20)

#define SLOTS_MAX (1u << 23)

void handle_table_init(struct handle_table *slots);
/* The table must be empty. */
void handle_table_deinit(struct handle_table *slots);

/*
 * Begins the generations of a boot: tokens of earlier boots find only the objects that
 * handle_table_put() puts back. The table must be empty. After 4096 boots the generations
 * begin again.
 */
void handle_table_begin(struct handle_table *slots, uint32_t boot);

/*
 * Puts an object back into the slot of its token. handle_table_settle() follows, before
 * anything is added. Returns: 0; -EEXIST: the slot is taken; -ENOMEM.
 */
int handle_table_put(struct handle_table *slots, void *object, uint32_t slot,
		     uint32_t generation);
/* All objects are back: the slots between them are free, the lowest to be used first. */
void handle_table_settle(struct handle_table *slots);

/* Returns: 0; -ENOMEM. */
int handle_table_add(struct handle_table *slots, void *object, uint32_t *ret_slot,
		     uint32_t *ret_generation);
void handle_table_remove(struct handle_table *slots, uint32_t slot);

/* The object; NULL when the slot has another generation. */
void *handle_table_get(const struct handle_table *slots, uint32_t slot,
		       uint32_t generation);

/* The object whatever its generation; NULL: none is there. */
void *handle_table_at(const struct handle_table *slots, uint64_t slot);

/* The first object at or after *slot, and sets *slot to its slot. NULL at the end. */
void *handle_table_next(const struct handle_table *slots, uint32_t *slot);
