/* SPDX-License-Identifier: MIT */
/*
 * Slots: a table of pointers, addressed by tokens.
 *
 * The registry has tables of its objects, and the view has a table of open files. Code
 * outside the table's owner keeps an object only as a token {slot, generation}. The
 * generation of a slot goes up whenever its object leaves, so the token of a removed
 * object finds nothing, even when the slot is in use again. The slot that was freed first
 * is reused first, and not before SLOTS_AT_REST are free: generations go up slowly. A
 * generation is never zero.
 *
 * Tokens may be older than the process: a program may have a file open for years. So a
 * process begins with generations above those of all earlier processes, and no token of
 * one process is ever met in a later one.
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
	uint32_t n_used, n_free;
	uint32_t first_generation; /* of a new slot */
	uint32_t *generations_end; /* handle_table_begin(); NULL: nobody follows */
};

#define SLOTS_MAX     (1u << 23)
#define SLOTS_AT_REST 1024

void handle_table_init(struct handle_table *slots);
/* The table must be empty. */
void handle_table_deinit(struct handle_table *slots);

/*
 * The generations of earlier processes lie below *generations_end (base/token_ends.h); 0:
 * there was no such process. Tokens of these processes find only the objects that
 * handle_table_put() puts back. The table must be empty. Tables of several threads may
 * share the number. Near the end of 32 bits generations begin again, after some million
 * processes.
 */
void handle_table_begin(struct handle_table *slots, uint32_t *generations_end);

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
