/* SPDX-License-Identifier: MIT */
#include "model/handle_table.h"

#include <assert.h>
#include <errno.h>

#define SLOT_NONE UINT32_MAX

void slots_init(struct slots *slots)
{
	*slots = (struct slots){ .first_free = SLOT_NONE, .last_free = SLOT_NONE };
}

void slots_deinit(struct slots *slots)
{
	assert(slots->n_used == 0);
	free(slots->table);
	slots_init(slots);
}

static int slots_grow(struct slots *slots)
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

int slots_add(struct slots *slots, void *object, uint32_t *ret_slot,
	      uint32_t *ret_generation)
{
	uint32_t slot = slots->first_free;
	int r;

	if (slot != SLOT_NONE) {
		slots->first_free = slots->table[slot].next_free;
		if (slots->first_free == SLOT_NONE)
			slots->last_free = SLOT_NONE;
	} else {
		if (slots->n_table == slots->capacity) {
			r = slots_grow(slots);
			if (r < 0)
				return r;
		}
		slot = slots->n_table++;
		slots->table[slot] = (struct slot){ .generation = 1 };
	}
	slots->table[slot].object = object;
	slots->n_used++;
	*ret_slot = slot;
	*ret_generation = slots->table[slot].generation;
	return 0;
}

void slots_remove(struct slots *slots, uint32_t slot)
{
	struct slot *entry = &slots->table[slot];

	assert(slot < slots->n_table && entry->object);
	entry->object = NULL;
	if (++entry->generation == 0)
		entry->generation = 1;
	entry->next_free = SLOT_NONE;
	if (slots->last_free == SLOT_NONE)
		slots->first_free = slot;
	else
		slots->table[slots->last_free].next_free = slot;
	slots->last_free = slot;
	slots->n_used--;
}

void *slots_get(const struct slots *slots, uint32_t slot, uint32_t generation)
{
	if (slot >= slots->n_table || slots->table[slot].generation != generation)
		return NULL;
	return slots->table[slot].object;
}

void *slots_next(const struct slots *slots, uint32_t *slot)
{
	for (; *slot < slots->n_table; (*slot)++) {
		if (slots->table[*slot].object)
			return slots->table[*slot].object;
	}
	return NULL;
}
