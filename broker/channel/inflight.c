/* SPDX-License-Identifier: MIT */
/*
 * Requests by id, in constant time and safe against a hostile worker.
 *
 * An id is the slot's number plus one in the low half and the slot's generation in the
 * high half. The generation goes up whenever the request leaves the slot. So a second
 * answer, or an answer to an old request, finds nothing. Nor does a guessed id of a
 * request that has not been sent yet. Free slots form a list through the table. The table
 * grows and never shrinks. All under the link's lock.
 */
#include "channel/inflight.h"

#include "channel/channel.h"

#include <assert.h>
#include <errno.h>

#define TABLE_FIRST 64u
#define TABLE_MAX   (1u << 24)

struct ask_slot {
	struct ask *ask; /* NULL: free */
	uint32_t generation;
	uint32_t next_free;
	bool sent;
};

void ask_table_deinit(struct ask_table *table)
{
	assert(!table->n_open);
	free(table->slots);
	*table = ASK_TABLE_INIT;
}

static int table_grow(struct ask_table *table)
{
	uint32_t n_slots = MAX(TABLE_FIRST, table->n_slots * 2);
	struct ask_slot *slots;

	if (n_slots > TABLE_MAX)
		return -ENOMEM;
	slots = reallocarray(table->slots, n_slots, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (uint32_t i = table->n_slots; i < n_slots; i++)
		slots[i] = (struct ask_slot){ .next_free = i + 1 };
	table->slots = slots;
	table->n_slots = n_slots;
	return 0;
}

int ask_table_add(struct ask_table *table, struct ask *ask)
{
	struct ask_slot *slot;
	uint32_t index;
	int r;

	if (table->free == table->n_slots) {
		r = table_grow(table);
		if (r < 0)
			return r;
	}
	index = table->free;
	slot = &table->slots[index];
	table->free = slot->next_free;
	table->first = MIN(table->first, index);
	table->n_open++;
	slot->ask = ask;
	slot->sent = false;
	ask->request.id = (uint64_t)slot->generation << 32 | (index + 1);
	return 0;
}

/* The slot of an open request, sent or not. */
static struct ask_slot *table_slot(const struct ask_table *table, uint64_t id)
{
	uint32_t number = (uint32_t)id;
	struct ask_slot *slot;

	if (!number || number > table->n_slots)
		return NULL;
	slot = &table->slots[number - 1];
	return slot->ask && slot->generation == id >> 32 ? slot : NULL;
}

void ask_table_set_sent(struct ask_table *table, uint64_t id)
{
	struct ask_slot *slot = table_slot(table, id);

	assert(slot);
	slot->sent = true;
}

struct ask *ask_table_find(const struct ask_table *table, uint64_t id)
{
	const struct ask_slot *slot = table_slot(table, id);

	return slot && slot->sent ? slot->ask : NULL;
}

static void table_release(struct ask_table *table, struct ask_slot *slot)
{
	slot->ask = NULL;
	slot->generation++;
	slot->next_free = table->free;
	table->free = (uint32_t)(slot - table->slots);
	table->n_open--;
}

void ask_table_remove(struct ask_table *table, uint64_t id)
{
	struct ask_slot *slot = table_slot(table, id);

	assert(slot);
	table_release(table, slot);
}

struct ask *ask_table_pop(struct ask_table *table)
{
	struct ask *ask;

	if (!table->n_open)
		return NULL;
	while (!table->slots[table->first].ask)
		table->first++;
	ask = table->slots[table->first].ask;
	table_release(table, &table->slots[table->first]);
	return ask;
}
