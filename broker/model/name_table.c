/* SPDX-License-Identifier: MIT */
#include "model/name_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/def.h"
#include "base/hash.h"
#include "model/folder.h"

#define CHAINS_MIN   8u
#define CHAIN_LENGTH 2u /* on average, at most */

/* Entries that are in no chain yet. */
struct name_queue {
	struct {
		struct entry *entry;
		unsigned int hash;
	} waiting[16];
	uint32_t n;
};

/*
 * The tables grow and shrink by one chain at a time, so that no call takes long (linear
 * hashing). A name's chain is given by as many bits of its hash as the number of chains
 * has; where there is no such chain yet, by one bit less.
 */

/* Where the names of the chain at `index` were before there was such a chain. */
static uint32_t chain_before(uint32_t index)
{
	return index & ~(UINT32_C(1) << (31 - __builtin_clz(index)));
}

static struct entry **chain_at(const struct name_table *table, unsigned int hash)
{
	uint32_t last = table->n_chains - 1, index;

	index = hash & (UINT32_MAX >> __builtin_clz(last));
	return &table->chains[index <= last ? index : chain_before(index)];
}

static unsigned int name_hash(const char *name)
{
	unsigned int hash;

	HASH_VALUE(name, strlen(name), hash);
	return hash;
}

static struct entry **chain_of(const struct name_table *table, const char *name)
{
	return chain_at(table, name_hash(name));
}

/* Makes room for so many chains. Returns: 0; -ENOMEM. */
static int chains_set_room(struct name_table *table, uint32_t n_room)
{
	struct entry **chains =
		reallocarray(table->chains, n_room, sizeof(struct entry *));

	if (!chains)
		return -ENOMEM;
	table->chains = chains;
	table->n_room = n_room;
	return 0;
}

/* Adds a chain, with its names from the chain before. Returns: 0; -ENOMEM. */
static int chain_split(struct name_table *table)
{
	struct entry **from, *entries, *entry, *next;

	if (table->n_chains == table->n_room &&
	    chains_set_room(table, 2 * table->n_room) < 0)
		return -ENOMEM;
	from = &table->chains[chain_before(table->n_chains)];
	entries = take_ptr(*from);
	table->chains[table->n_chains++] = NULL;
	LL_FOREACH_SAFE(entries, entry, next)
	LL_PREPEND(*chain_of(table, entry->name), entry);
	return 0;
}

/* Takes the last chain away. */
static void chain_merge(struct name_table *table)
{
	uint32_t last = --table->n_chains;
	struct entry **into = &table->chains[chain_before(last)];

	LL_CONCAT(*into, table->chains[last]);
	/* Without memory the room stays. */
	if (table->n_chains <= table->n_room / 4)
		(void)chains_set_room(table, table->n_room / 2);
}

int name_table_reserve(struct name_table *table)
{
	if (table->chains)
		return 0;
	table->chains = calloc(CHAINS_MIN, sizeof(struct entry *));
	if (!table->chains)
		return -ENOMEM;
	table->n_chains = table->n_room = CHAINS_MIN;
	return 0;
}

/* Without memory the chains get longer. Returns: whether another chain was added. */
static bool name_table_grow(struct name_table *table, uint64_t n_names)
{
	return n_names > (uint64_t)table->n_chains * CHAIN_LENGTH &&
	       chain_split(table) == 0;
}

int name_table_begin(struct name_table *table, uint32_t n)
{
	int r = name_table_reserve(table);

	while (r == 0 && name_table_grow(table, (uint64_t)table->n_names + n))
		;
	if (r == 0 && !table->queue)
		table->queue = calloc(1, sizeof(*table->queue));
	return r == 0 && !table->queue ? -ENOMEM : r;
}

static void queue_flush(struct name_table *table)
{
	struct name_queue *queue = table->queue;

	for (uint32_t i = 0; queue && i < queue->n; i++)
		LL_PREPEND(*chain_at(table, queue->waiting[i].hash),
			   queue->waiting[i].entry);
	if (queue)
		queue->n = 0;
}

static void queue_add(struct name_table *table, struct entry *entry)
{
	struct name_queue *queue = table->queue;
	unsigned int hash = name_hash(entry->name);

	__builtin_prefetch(chain_at(table, hash), 1);
	queue->waiting[queue->n].entry = entry;
	queue->waiting[queue->n].hash = hash;
	if (++queue->n == ARRAY_SIZE(queue->waiting))
		queue_flush(table);
}

void name_table_settle(struct name_table *table)
{
	queue_flush(table);
	free(table->queue);
	table->queue = NULL;
}

void name_table_add(struct name_table *table, struct entry *entry)
{
	assert(table->chains);
	if (table->queue)
		queue_add(table, entry);
	else
		LL_PREPEND(*chain_of(table, entry->name), entry);
	table->n_names++;
	name_table_grow(table, table->n_names);
}

void name_table_remove(struct name_table *table, struct entry *entry)
{
	queue_flush(table);
	LL_DELETE(*chain_of(table, entry->name), entry);
	entry->next = NULL;
	table->n_names--;
	if (table->n_names < table->n_chains && table->n_chains > CHAINS_MIN)
		chain_merge(table);
}

struct entry *name_table_find(const struct name_table *table, const char *name)
{
	struct entry *entry;

	assert(!table->queue);
	if (!table->n_names)
		return NULL;
	LL_FOREACH (*chain_of(table, name), entry) {
		if (strcmp(entry->name, name) == 0)
			break;
	}
	return entry;
}

struct entry **name_table_list(const struct name_table *table)
{
	struct entry **entries =
		table->n_names ? calloc(table->n_names, sizeof(struct entry *)) : NULL;
	struct entry *entry;
	uint32_t n = 0;

	assert(!table->queue);
	for (uint32_t i = 0; entries && i < table->n_chains; i++) {
		LL_FOREACH (table->chains[i], entry)
			entries[n++] = entry;
	}
	return entries;
}

void name_table_deinit(struct name_table *table)
{
	assert(table->n_names == 0);
	free(table->queue);
	free(table->chains);
	*table = (struct name_table){ 0 };
}
