/* SPDX-License-Identifier: MIT */
#include "model/folder.h"
#include "base/refusal.h"
#include "base/text.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct registry registry;
static struct folder *root;
static struct owner *alice, *bob;
static struct refusal refusal;

static const struct caller by_alice = { .uid = 1000, .gid = 100 };
static const struct caller by_bob = { .uid = 1001, .gid = 101 };
static const struct caller by_root = { 0 };

static void start(void)
{
	registry_init(&registry);
	root = &registry.allocation_root;
	alice = owner_get(&registry, 1000, 100);
	bob = owner_get(&registry, 1001, 101);
}

static void stop(void)
{
	registry_deinit(&registry);
}

TestSuite(folder, .init = start, .fini = stop);

static struct folder *make(struct folder *in, const char *name)
{
	struct folder *folder = NULL;

	cr_assert(eq(int, folder_new(&folder, &registry, in, name, alice), 0));
	return folder;
}

static struct allocation *put(struct folder *in, const char *name)
{
	struct allocation *allocation = NULL;

	cr_assert(eq(int, allocation_new(&allocation, &registry, in, name, 8, alice), 0));
	allocation_publish(&registry, allocation);
	return allocation;
}

static void drop(struct allocation *allocation)
{
	allocation_withdraw(&registry, allocation);
	allocation_free(&registry, allocation);
}

static void move(struct entry *entry, struct folder *in, const char *name)
{
	struct name_place place = { .folder = in, .name = name };

	cr_assert(eq(int, name_place_reserve(&place, 1), 0));
	entries_move(&entry, &place, 1);
}

static void expect_name(const struct entry *entry, const char *name)
{
	cr_assert(eq(str, entry_name(entry).text, (char *)name));
}

/* ---- names ---- */

Test(folder, full_names_follow_the_folders_above)
{
	struct folder *a = make(root, "a"), *b = make(a, "b"), *c = make(root, "c");
	struct allocation *x = put(b, "x");

	expect_name(&x->entry, "a/b/x");
	move(&a->entry, root, "alice");
	expect_name(&x->entry, "alice/b/x");
	move(&b->entry, c, "d");
	expect_name(&x->entry, "c/d/x");
	cr_assert(eq(ptr, allocation_find(&registry, "c/d/x", &by_root, &refusal), x));
	cr_assert(eq(ptr, allocation_find(&registry, "a/b/x", &by_root, &refusal), NULL));
	cr_assert(eq(int, refusal.error, ENOENT));
	drop(x);
}

Test(folder, the_longest_name_has_eight_folders)
{
	char name[OBJECT_NAME_MAX + 1], longest[FULL_NAME_MAX + 1] = "";
	struct folder *in = root;
	struct allocation *x;

	memset(name, 'n', OBJECT_NAME_MAX);
	name[OBJECT_NAME_MAX] = '\0';
	for (int i = 0; i < FOLDER_DEPTH_MAX; i++) {
		in = make(in, name);
		strcat(strcat(longest, name), "/");
	}
	strcat(longest, name);
	x = put(in, name);
	expect_name(&x->entry, longest);
	cr_assert(eq(sz, strlen(longest), FULL_NAME_MAX));
	drop(x);
}

Test(folder, a_name_is_of_a_folder_or_of_an_allocation)
{
	struct allocation *x = put(root, "x"), *other;
	struct folder *a = make(root, "a"), *folder;

	cr_assert(eq(int, folder_new(&folder, &registry, root, "x", alice), -EEXIST));
	cr_assert(eq(int, allocation_new(&other, &registry, root, "a", 8, bob), -EEXIST));
	cr_assert(eq(ptr, allocation_find(&registry, "a", &by_root, &refusal), NULL));
	cr_assert(eq(int, refusal.error, EISDIR));
	cr_assert(eq(ptr, allocation_find(&registry, "x/y", &by_root, &refusal), NULL));
	cr_assert(eq(int, refusal.error, ENOTDIR));
	drop(x);
	x = put(a, "x");
	drop(put(root, "x"));
	drop(x);
}

Test(folder, a_freed_allocation_keeps_its_name)
{
	struct folder *a = make(root, "a");
	struct allocation *x = put(a, "x");

	allocation_withdraw(&registry, x);
	folder_free(&registry, a);
	expect_name(&x->entry, "a/x");
	allocation_free(&registry, x);
}

Test(folder, names_pass_from_one_to_another_between_folders)
{
	struct folder *a = make(root, "a");
	struct allocation *x = put(root, "x"), *y = put(a, "y");
	struct entry *entries[] = { &x->entry, &y->entry };
	struct name_place places[] = { { .folder = a, .name = "y" },
				       { .folder = root, .name = "x" } };

	for (size_t i = 0; i < 2; i++)
		cr_assert(eq(int, name_place_reserve(&places[i], 2), 0));
	entries_move(entries, places, 2);
	expect_name(&x->entry, "a/y");
	expect_name(&y->entry, "x");
	cr_assert(eq(ptr, folder_find(a, "y"), &x->entry));
	drop(x);
	drop(y);
}

Test(folder, places_stay_while_names_come_and_go)
{
	struct allocation *all[100];
	uint32_t place = 0;
	char name[16];

	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		all[i] = put(root, name);
	}
	/* Half of the listing has been read. */
	for (int i = 0; i < 50; i++, place++)
		cr_assert(eq(ptr, place_table_next(&root->entries, &place),
			     &all[i]->entry));
	for (int i = 0; i < 100; i += 2)
		drop(all[i]);
	for (int i = 1; i < 100; i += 2) {
		snprintf(name, sizeof(name), "m%d", i);
		move(&all[i]->entry, root, name);
	}
	for (int i = 51; i < 100; i += 2, place++)
		cr_assert(eq(ptr, place_table_next(&root->entries, &place),
			     &all[i]->entry));
	cr_assert(eq(ptr, place_table_next(&root->entries, &place), NULL));
	for (int i = 1; i < 100; i += 2)
		drop(all[i]);
}

/* ---- depth ---- */

static struct folder *make_chain(struct folder *in, int n)
{
	char name[16];

	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		in = make(in, name);
	}
	return in;
}

Test(folder, there_are_eight_levels)
{
	struct folder *last = make_chain(root, FOLDER_DEPTH_MAX), *more;
	struct allocation *x = put(last, "x");

	cr_assert(eq(u32, folder_depth(last), FOLDER_DEPTH_MAX));
	cr_assert(eq(int, folder_new(&more, &registry, last, "more", alice),
		     -ENAMETOOLONG));
	drop(x);
}

Test(folder, a_tall_folder_goes_only_where_all_of_it_has_room)
{
	struct folder *low = make_chain(root, 5), *tall = make(root, "tall"), *leaf;

	leaf = make_chain(tall, 2);
	cr_assert(folder_fits(tall, folder_depth(low)));
	leaf = make(leaf, "more");
	cr_assert(not(folder_fits(tall, folder_depth(low))));
	folder_free(&registry, leaf);
	cr_assert(folder_fits(tall, folder_depth(low)));
	move(&tall->entry, low, "tall");
	/* The folders above count those that came with it. */
	cr_assert(not(folder_fits(entry_folder(folder_find(root, "f0")),
				  folder_depth(make(root, "other")))));
	cr_assert(folder_fits(entry_folder(folder_find(root, "f0")), folder_depth(root)));
}

Test(folder, what_is_above_a_folder_is_known)
{
	struct folder *a = make(root, "a"), *b = make(a, "b"), *c = make(root, "c");

	cr_assert(folder_is_below(b, &a->entry));
	cr_assert(folder_is_below(a, &a->entry));
	cr_assert(not(folder_is_below(a, &b->entry)));
	cr_assert(not(folder_is_below(c, &a->entry)));
}

/* ---- rights ---- */

Test(folder, rights_are_those_of_the_first_class_that_fits)
{
	const struct caller in_group = { .uid = 1002, .gid = 100 };
	struct folder *a = make(root, "a");

	a->mode = 0705;
	cr_assert(folder_may(a, &by_alice, FOLDER_WRITE | FOLDER_SEARCH));
	cr_assert(not(folder_may(a, &in_group, FOLDER_SEARCH)));
	cr_assert(folder_may(a, &by_bob, FOLDER_SEARCH));
	cr_assert(not(folder_may(a, &by_bob, FOLDER_WRITE | FOLDER_SEARCH)));
	a->mode = 0070;
	cr_assert(not(folder_may(a, &by_alice, FOLDER_SEARCH)));
	cr_assert(folder_may(a, &in_group, FOLDER_WRITE));
	a->mode = 0;
	cr_assert(folder_may(a, &by_root, FOLDER_WRITE | FOLDER_SEARCH));
}

Test(folder, a_closed_folder_tells_nobody_which_names_it_has)
{
	struct folder *a = make(root, "a"), *b = make(a, "b");
	struct allocation *x = put(b, "x");

	a->mode = 0700;
	b->mode = 0777;
	cr_assert(eq(ptr, allocation_find(&registry, "a/b/x", &by_bob, &refusal), NULL));
	cr_assert(eq(int, refusal.error, EACCES));
	cr_assert(
		eq(ptr, allocation_find(&registry, "a/none/x", &by_bob, &refusal), NULL));
	cr_assert(eq(int, refusal.error, EACCES));
	cr_assert(eq(ptr, allocation_find(&registry, "a/none", &by_bob, &refusal), NULL));
	cr_assert(eq(int, refusal.error, EACCES));
	a->mode = 0711;
	cr_assert(eq(ptr, allocation_find(&registry, "a/b/x", &by_bob, &refusal), x));
	drop(x);
}

/* ---- shares ---- */

Test(folder, an_owner_with_all_folders_takes_none_from_others)
{
	enum { MOST = 16384 };
	_cleanup_text_ struct text text = TEXT_INIT;
	struct folder *more, *one = NULL;
	char name[16];

	for (int i = 0; i < MOST; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		one = make(root, name);
	}
	cr_assert(eq(int, folder_new(&more, &registry, root, "more", alice), -EDQUOT));
	share_explain(alice, &text);
	cr_assert(strstr(text_string(&text), "uid 1000 has 16384 folders") != NULL);
	cr_assert(eq(int, folder_new(&more, &registry, root, "more", bob), 0));
	cr_assert(eq(int, folder_set_owner(more, alice), -EDQUOT));
	folder_free(&registry, one);
	cr_assert(eq(int, folder_set_owner(more, alice), 0));
	cr_assert(eq(u64, bob->shares.held[SHARE_FOLDERS], 0));
}

/* ---- modules ---- */

Test(folder, a_module_becomes_a_folder_with_its_token_and_name)
{
	struct module *p, *k;
	struct folder *folder;
	struct token token;

	cr_assert(
		eq(int, module_new(&p, &registry, &registry.module_root, "p", alice), 0));
	p->folder_mode = 0755;
	token = (struct token){ p->slot, p->slot_generation };
	cr_assert(eq(int, folder_from_module(&folder, &registry, p), 0));
	cr_assert(eq(ptr, module_get(&registry, token), NULL));
	cr_assert(eq(ptr, folder_get(&registry, OBJECT_MODULE, token), folder));
	cr_assert(eq(u32, folder->mode, 0755));
	cr_assert(eq(u64, folder->id, p->id));
	cr_assert(eq(u64, alice->shares.held[SHARE_MODULES], 0));
	cr_assert(eq(u64, registry.n_modules, 0));
	cr_assert(eq(int, module_new(&k, &registry, folder, "k", alice), 0));
	expect_name(&k->entry, "p/k");
	cr_assert(eq(ptr, module_find(&registry, "p/k", &by_alice, &refusal), k));
	cr_assert(eq(ptr, module_find(&registry, "p", &by_alice, &refusal), NULL));
	cr_assert(eq(int, refusal.error, EISDIR));
	module_free(&registry, k);
	folder_free(&registry, folder);
	cr_assert(eq(ptr, folder_get(&registry, OBJECT_MODULE, token), NULL));
	cr_assert(eq(u64, alice->shares.held[SHARE_FOLDERS], 0));
}

/* alice has nothing any more, and may be forgotten. */
Test(folder, one_that_was_a_module_leaves_its_owner_whole)
{
	struct folder *folder;
	struct module *p;

	cr_assert(
		eq(int, module_new(&p, &registry, &registry.module_root, "p", alice), 0));
	cr_assert(eq(int, folder_from_module(&folder, &registry, p), 0));
	cr_assert(eq(int, folder_set_owner(folder, bob), 0));
	cr_assert(eq(ptr, p->owner, bob));
	folder_free(&registry, folder);
}

/* Of thousands of names only the last of the listing is left. */
Test(folder, names_that_have_gone_leave_no_room)
{
	enum { N = 3000 };
	static struct allocation *all[N];
	struct folder *a = make(root, "a"), *b = make(root, "b");
	uint32_t place = 0;
	char name[16];

	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "x%d", i);
		all[i] = put(a, name);
	}
	for (int i = 0; i < N - 1; i++) {
		snprintf(name, sizeof(name), "x%d", i);
		move(&all[i]->entry, b, name);
	}
	cr_expect(eq(ptr, place_table_next(&a->entries, &place), &all[N - 1]->entry));
	cr_expect(eq(u32, place, N - 1));
	cr_expect(lt(u32, a->names.n_room, 64));
	cr_expect(eq(u32, a->entries.n_spare, 0));
	cr_expect(eq(u32, b->entries.n_spare, 0));
	move(&all[0]->entry, a, "y");
	cr_expect(eq(u32, all[0]->entry.place, 0));
	for (int i = 0; i < N; i++)
		drop(all[i]);
	cr_expect(eq(ptr, a->entries.root, NULL));
}
