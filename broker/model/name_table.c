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

static struct entry **chain_at(const struct name_table *table, unsigned int hash)
{
	return &table->chains[hash & (table->n_chains - 1)];
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

static void entries_rechain(struct entry *entries, const struct name_table *table)
{
	struct entry *entry, *next;

	LL_FOREACH_SAFE(entries, entry, next)
	LL_PREPEND(*chain_of(table, entry->name), entry);
}

static int name_table_grow(struct name_table *table)
{
	struct name_table grown = {
		.n_chains = MAX(table->n_chains * 2, CHAINS_MIN),
		.n_names = table->n_names,
		.queue = table->queue,
	};

	grown.chains = calloc(grown.n_chains, sizeof(struct entry *));
	if (!grown.chains)
		return -ENOMEM;
	for (uint32_t i = 0; i < table->n_chains; i++)
		entries_rechain(table->chains[i], &grown);
	free(table->chains);
	*table = grown;
	return 0;
}

int name_table_reserve(struct name_table *table, uint32_t n)
{
	int r = 0;

	while (r == 0 &&
	       table->n_names + (uint64_t)n > (uint64_t)table->n_chains * CHAIN_LENGTH)
		r = name_table_grow(table);
	/* Without memory the chains get longer. */
	return table->chains ? 0 : r;
}

int name_table_begin(struct name_table *table, uint32_t n)
{
	int r = name_table_reserve(table, n);

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
}

void name_table_remove(struct name_table *table, struct entry *entry)
{
	queue_flush(table);
	LL_DELETE(*chain_of(table, entry->name), entry);
	entry->next = NULL;
	table->n_names--;
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
