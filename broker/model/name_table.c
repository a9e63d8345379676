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

static struct entry **chain_of(const struct name_table *table, const char *name)
{
	unsigned int hash;

	HASH_VALUE(name, strlen(name), hash);
	return &table->chains[hash & (table->n_chains - 1)];
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

void name_table_add(struct name_table *table, struct entry *entry)
{
	assert(table->chains);
	LL_PREPEND(*chain_of(table, entry->name), entry);
	table->n_names++;
}

void name_table_remove(struct name_table *table, struct entry *entry)
{
	LL_DELETE(*chain_of(table, entry->name), entry);
	entry->next = NULL;
	table->n_names--;
}

struct entry *name_table_find(const struct name_table *table, const char *name)
{
	struct entry *entry;

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

	for (uint32_t i = 0; entries && i < table->n_chains; i++) {
		LL_FOREACH (table->chains[i], entry)
			entries[n++] = entry;
	}
	return entries;
}

void name_table_deinit(struct name_table *table)
{
	assert(table->n_names == 0);
	free(table->chains);
	*table = (struct name_table){ 0 };
}
