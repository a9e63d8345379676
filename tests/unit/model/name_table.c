/* SPDX-License-Identifier: MIT */
#include "model/name_table.h"
#include "base/hash.h"
#include "model/folder.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/registry.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define N 20000

/* The broker's allocations from this one on fail; -1: none does. */
static int allocations_left = -1;

static bool allocation_fails(void)
{
	return allocations_left >= 0 && allocations_left-- == 0;
}

void *__real_calloc(size_t n, size_t size);
void *__real_reallocarray(void *bytes, size_t n, size_t size);
char *__real_strdup(const char *string);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_reallocarray(void *bytes, size_t n, size_t size);
char *__wrap_strdup(const char *string);

void *__wrap_calloc(size_t n, size_t size)
{
	return allocation_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_reallocarray(void *bytes, size_t n, size_t size)
{
	return allocation_fails() ? NULL : __real_reallocarray(bytes, n, size);
}

char *__wrap_strdup(const char *string)
{
	return allocation_fails() ? NULL : __real_strdup(string);
}

static struct entry *entry_of(const char *name)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	entry->name = strdup(name);
	return entry;
}

static void entry_free(struct entry *entry)
{
	free(entry->name);
	free(entry);
}

static struct entry *add(struct name_table *table, int i)
{
	struct entry *entry;
	char name[16];

	snprintf(name, sizeof(name), "n%d", i);
	entry = entry_of(name);
	cr_assert(eq(int, name_table_reserve(table), 0));
	name_table_add(table, entry);
	return entry;
}

Test(name_table, finds_what_is_there_and_nothing_else)
{
	struct name_table table = { 0 };
	static struct entry *all[N];

	cr_assert(eq(ptr, name_table_find(&table, "n0"), NULL));
	for (int i = 0; i < N; i++)
		all[i] = add(&table, i);
	for (int i = 0; i < N; i += 2)
		name_table_remove(&table, all[i]);
	for (int i = 0; i < N; i++)
		cr_assert(eq(ptr, name_table_find(&table, all[i]->name),
			     i % 2 ? all[i] : NULL));
	cr_assert(eq(ptr, name_table_find(&table, "n"), NULL));
	for (int i = 0; i < N; i++) {
		if (i % 2)
			name_table_remove(&table, all[i]);
		entry_free(all[i]);
	}
	name_table_deinit(&table);
}

/* So adding or removing a name takes as long in a table of any size. */
Test(name_table, one_name_moves_a_chain_at_most)
{
	struct name_table table = { 0 };
	static struct entry *all[N];
	uint32_t n_chains;

	for (int i = 0; i < N; i++) {
		n_chains = table.n_chains;
		all[i] = add(&table, i);
		cr_assert(i == 0 || table.n_chains - n_chains <= 1);
	}
	cr_assert(ge(u32, table.n_chains, N / 2));
	for (int i = 0; i < N; i++) {
		n_chains = table.n_chains;
		name_table_remove(&table, all[i]);
		cr_assert(le(u32, n_chains - table.n_chains, 1));
		entry_free(all[i]);
	}
	cr_assert(lt(u32, table.n_chains, 10));
	cr_assert(lt(u32, table.n_room, 64));
	name_table_deinit(&table);
}

Test(name_table, lists_each_name_once)
{
	struct name_table table = { 0 };
	struct entry **list, *first = add(&table, 1), *second = add(&table, 2);

	list = name_table_list(&table);
	cr_assert(list[0] == first ? list[1] == second
				   : list[0] == second && list[1] == first);
	free(list);
	name_table_remove(&table, first);
	name_table_remove(&table, second);
	cr_assert(eq(ptr, name_table_list(&table), NULL));
	entry_free(first);
	entry_free(second);
	name_table_deinit(&table);
}

/* More names than wait at a time, and one that goes while it waits. */
Test(name_table, names_that_come_together_are_found_once_settled)
{
	struct name_table table = { 0 };
	static struct entry *all[100];
	char name[16];

	cr_assert(eq(int, name_table_begin(&table, 100), 0));
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		all[i] = entry_of(name);
		name_table_add(&table, all[i]);
	}
	name_table_remove(&table, all[98]);
	name_table_settle(&table);
	for (int i = 0; i < 100; i++) {
		cr_assert(eq(ptr, name_table_find(&table, all[i]->name),
			     i == 98 ? NULL : all[i]));
		if (i != 98)
			name_table_remove(&table, all[i]);
		entry_free(all[i]);
	}
	name_table_deinit(&table);
}

Test(name_table, chains_get_longer_without_memory)
{
	struct name_table table = { 0 };
	static struct entry *all[100];
	uint32_t n_chains;
	char name[16];

	allocations_left = 0;
	cr_assert(eq(int, name_table_reserve(&table), -ENOMEM));
	all[0] = add(&table, 0);
	n_chains = table.n_chains;
	for (int i = 1; i < 100; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		all[i] = entry_of(name);
		allocations_left = 0;
		cr_assert(eq(int, name_table_reserve(&table), 0));
		name_table_add(&table, all[i]);
		allocations_left = -1;
	}
	cr_assert(eq(u32, table.n_chains, n_chains));
	for (int i = 0; i < 100; i++) {
		cr_assert(eq(ptr, name_table_find(&table, all[i]->name), all[i]));
		name_table_remove(&table, all[i]);
		entry_free(all[i]);
	}
	name_table_deinit(&table);
}

/* Whatever allocation fails, nothing is left half done, and the next try succeeds. */
Test(name_table, names_without_memory_are_refused_whole)
{
	struct registry registry;
	struct folder *folder = NULL, *root;
	struct module *module = NULL;
	struct owner *owner;
	int r = -ENOMEM, n;

	registry_init(&registry);
	root = &registry.module_root;
	owner = owner_get(&registry, 1000, 100);
	for (n = 0; r == -ENOMEM; n++) {
		allocations_left = n;
		r = module_new(&module, &registry, root, "m", owner);
		cr_assert(eq(int, folder_find(root, "m") != NULL, r == 0));
	}
	cr_assert(gt(int, n, 3));
	for (r = -ENOMEM, n = 0; r == -ENOMEM; n++) {
		allocations_left = n;
		r = folder_from_module(&folder, &registry, module);
		if (r == -ENOMEM)
			cr_assert(eq(ptr, module_of(folder_find(root, "m")), module));
	}
	cr_assert(gt(int, n, 3));
	cr_assert(eq(ptr, entry_folder(folder_find(root, "m")), folder));
	allocations_left = 0;
	folder_to_module(&registry, folder);
	allocations_left = -1;
	cr_assert(eq(ptr, module_of(folder_find(root, "m")), module));
	cr_assert(eq(str, module_name(module).text, "m"));
	module_free(&registry, module);
	registry_deinit(&registry);
}

/* Names of one value of uthash's own hash, which anybody can find. */
Test(name_table, names_of_one_known_hash_have_many_chains)
{
	static struct entry *all[512];
	struct name_table table = { 0 };
	uint32_t longest = 0;

	for (uint32_t i = 0, n = 0; n < 512; i++) {
		unsigned int known;
		char name[16];

		snprintf(name, sizeof(name), "n%u", i);
		HASH_JEN(name, strlen(name), known);
		if (known % 1024)
			continue;
		all[n] = entry_of(name);
		cr_assert(eq(int, name_table_reserve(&table), 0));
		name_table_add(&table, all[n++]);
	}
	for (uint32_t i = 0; i < table.n_chains; i++) {
		uint32_t length = 0;

		for (struct entry *entry = table.chains[i]; entry; entry = entry->next)
			length++;
		longest = length > longest ? length : longest;
	}
	cr_assert(lt(u32, longest, 32));
	for (int i = 0; i < 512; i++) {
		name_table_remove(&table, all[i]);
		entry_free(all[i]);
	}
	name_table_deinit(&table);
}
