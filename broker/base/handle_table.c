/* SPDX-License-Identifier: MIT */
#include "base/handle_table.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define SLOT_NONE	 UINT32_MAX

#define GENERATIONS_STEP 1024
#define GENERATIONS_MOST (UINT32_MAX - GENERATIONS_STEP)

void handle_table_init(struct handle_table *slots)
{
	*slots = (struct handle_table){
		.first_free = SLOT_NONE,
		.last_free = SLOT_NONE,
		.first_generation = 1,
	};
}

void handle_table_deinit(struct handle_table *slots)
{
	assert(slots->n_used == 0);
	free(slots->table);
	handle_table_init(slots);
}

static int handle_table_grow(struct handle_table *slots)
{
	uint32_t capacity = slots->capacity ? slots->capacity * 2 : 64;
	struct slot *table;

	if (slots->capacity >= SLOTS_MAX)
		return -ENOMEM;
	table = realloc(slots->table, capacity * sizeof(*table));
	if (!table)
		return -ENOMEM;
	slots->table = table;
	slots->capacity = capacity;
	return 0;
}

/* Appends a slot that was never used. Returns: 0; -ENOMEM. */
static int slot_append(struct handle_table *slots)
{
	int r = slots->n_table == slots->capacity ? handle_table_grow(slots) : 0;

	if (r == 0)
		slots->table[slots->n_table++] =
			(struct slot){ .generation = slots->first_generation };
	return r;
}

/* Takes the slot that was freed first. */
static uint32_t slot_reuse(struct handle_table *slots)
{
	uint32_t slot = slots->first_free;

	slots->first_free = slots->table[slot].next_free;
	if (slots->first_free == SLOT_NONE)
		slots->last_free = SLOT_NONE;
	slots->n_free--;
	return slot;
}

/* Raises the end before the generation is given out: in steps, to write seldom. */
static void generation_given(const struct handle_table *slots, uint32_t generation)
{
	uint32_t end;

	if (!slots->generations_end)
		return;
	end = __atomic_load_n(slots->generations_end, __ATOMIC_RELAXED);
	while (generation >= end &&
	       !__atomic_compare_exchange_n(slots->generations_end, &end,
					    generation + GENERATIONS_STEP, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

int handle_table_add(struct handle_table *slots, void *object, uint32_t *ret_slot,
		     uint32_t *ret_generation)
{
	uint32_t slot;

	if (slots->n_free < SLOTS_AT_REST && slot_append(slots) == 0)
		slot = slots->n_table - 1;
	else if (slots->n_free)
		slot = slot_reuse(slots);
	else
		return -ENOMEM;
	slots->table[slot].object = object;
	slots->n_used++;
	*ret_slot = slot;
	*ret_generation = slots->table[slot].generation;
	generation_given(slots, *ret_generation);
	return 0;
}

/* Appends the slot to those that are free. */
static void slot_free(struct handle_table *slots, uint32_t slot)
{
	slots->table[slot].next_free = SLOT_NONE;
	if (slots->last_free == SLOT_NONE)
		slots->first_free = slot;
	else
		slots->table[slots->last_free].next_free = slot;
	slots->last_free = slot;
	slots->n_free++;
}

void handle_table_begin(struct handle_table *slots, uint32_t *generations_end)
{
	uint32_t end = __atomic_load_n(generations_end, __ATOMIC_RELAXED);

	assert(slots->n_table == 0);
	if (end == 0 || end >= GENERATIONS_MOST) {
		end = 1;
		__atomic_store_n(generations_end, end, __ATOMIC_RELAXED);
	}
	slots->first_generation = end;
	slots->generations_end = generations_end;
}

int handle_table_put(struct handle_table *slots, void *object, uint32_t slot,
		     uint32_t generation)
{
	while (slots->n_table <= slot) {
		int r = slot_append(slots);

		if (r < 0)
			return r;
	}
	if (slots->table[slot].object)
		return -EEXIST;
	slots->table[slot] = (struct slot){ .object = object, .generation = generation };
	slots->n_used++;
	return 0;
}

void handle_table_settle(struct handle_table *slots)
{
	assert(slots->first_free == SLOT_NONE);
	for (uint32_t slot = 0; slot < slots->n_table; slot++) {
		if (!slots->table[slot].object)
			slot_free(slots, slot);
	}
}

void handle_table_remove(struct handle_table *slots, uint32_t slot)
{
	struct slot *entry = &slots->table[slot];

	assert(slot < slots->n_table && entry->object);
	entry->object = NULL;
	if (++entry->generation < GENERATIONS_MOST)
		slot_free(slots, slot);
	else
		entry->generation = 0; /* used up */
	slots->n_used--;
}

void *handle_table_get(const struct handle_table *slots, uint32_t slot,
		       uint32_t generation)
{
	if (slot >= slots->n_table || slots->table[slot].generation != generation)
		return NULL;
	return slots->table[slot].object;
}

void *handle_table_at(const struct handle_table *slots, uint64_t slot)
{
	return slot < slots->n_table ? slots->table[slot].object : NULL;
}

void *handle_table_next(const struct handle_table *slots, uint32_t *slot)
{
	for (; *slot < slots->n_table; (*slot)++) {
		if (slots->table[*slot].object)
			return slots->table[*slot].object;
	}
	return NULL;
}
