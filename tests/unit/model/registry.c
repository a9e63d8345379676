/* SPDX-License-Identifier: MIT */
#include "model/registry.h"
#include "base/def.h"
#include "base/text.h"
#include "model/origin.h"
#include "model/owner.h"
#include "model/shares.h"
#include "model/stream.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct registry registry;
static struct owner *alice, *bob;

static void start(void)
{
	registry_init(&registry);
	alice = owner_get(&registry, 1000, 100);
	bob = owner_get(&registry, 1001, 100);
}

static void stop(void)
{
	registry_deinit(&registry);
}

TestSuite(registry, .init = start, .fini = stop);

static struct allocation *make(const char *name, uint64_t size, struct owner *owner)
{
	struct allocation *allocation = NULL;

	cr_assert(eq(int,
		     allocation_new(&allocation, &registry, &registry.allocation_root,
				    name, size, owner),
		     0));
	return allocation;
}

static void drop(struct allocation *allocation)
{
	allocation_withdraw(&registry, allocation);
	allocation_free(&registry, allocation);
}

Test(registry, names_are_checked)
{
	static const char *const good[] = { "x", "_", "0", "a.b-c_D9", "x." };
	static const char *const bad[] = { "",	  ".",	 "..",	".x",	    "-x",
					   "a b", "a/b", "a+b", "\xc3\xa9", "a\n" };
	char longest[OBJECT_NAME_MAX + 2];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		cr_expect(eq(int, name_check(good[i]), 0), "'%s'", good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect(eq(int, name_check(bad[i]), -EINVAL), "'%s'", bad[i]);
	memset(longest, 'x', sizeof(longest));
	longest[OBJECT_NAME_MAX + 1] = '\0';
	cr_assert(eq(int, name_check(longest), -ENAMETOOLONG));
	longest[OBJECT_NAME_MAX] = '\0';
	cr_assert(eq(int, name_check(longest), 0));
}

Test(registry, an_owner_with_all_allocations_takes_none_from_others)
{
	enum { MOST = 262144 };
	static struct allocation *all[MOST];
	_cleanup_text_ struct text text = TEXT_INIT;
	struct allocation *more;
	char name[16];

	for (int i = 0; i < MOST; i++) {
		snprintf(name, sizeof(name), "a%d", i);
		all[i] = make(name, 1, alice);
	}
	cr_assert(eq(int,
		     allocation_new(&more, &registry, &registry.allocation_root, "more",
				    1, alice),
		     -EDQUOT));
	share_explain(alice, &text);
	cr_assert(strstr(text_string(&text), "uid 1000 has 262144 allocations") != NULL);
	drop(make("bobs", 1, bob));
	for (int i = 0; i < MOST; i++)
		drop(all[i]);
	drop(make("more", 1, alice));
}

Test(registry, name_is_taken_before_the_allocation_is_seen)
{
	struct allocation *x = make("x", 8, alice), *other = NULL;

	cr_assert(eq(ptr, allocation_get(&registry, x->slot, x->slot_generation), NULL));
	cr_assert(eq(
		int,
		allocation_new(&other, &registry, &registry.allocation_root, "x", 8, bob),
		-EEXIST));
	cr_assert(eq(u64, registry.n_allocations, 0));
	allocation_publish(&registry, x);
	cr_assert(eq(ptr, allocation_get(&registry, x->slot, x->slot_generation), x));
	drop(x);
}

Test(registry, name_is_free_again_once_withdrawn_and_bytes_count_until_freed)
{
	struct allocation *x = make("x", 8, alice), *again;

	allocation_publish(&registry, x);
	allocation_withdraw(&registry, x);
	again = make("x", 16, bob);
	cr_assert(ne(u64, again->id, x->id));
	cr_assert(eq(ptr, allocation_of(folder_find(&registry.allocation_root, "x")),
		     again));
	cr_assert(eq(u64, registry.bytes, 8));
	cr_assert(eq(u64, registry.n_allocations, 0));
	allocation_free(&registry, x);
	cr_assert(eq(u64, registry.bytes, 0));
	drop(again);
}

Test(registry, what_was_never_published_never_counts)
{
	drop(make("x", 8, alice));
	cr_assert(eq(u64, registry.bytes, 0));
	cr_assert(eq(u64, registry.peak_bytes, 0));
	cr_assert(eq(u64, alice->bytes, 0));
}

/* ---- totals against a model ---- */

#define N_NAMES 64
#define N_STEPS 10000

struct totals {
	uint64_t n, bytes, by_kind[N_KINDS], on[2];
	uint64_t n_alice, bytes_alice;
};

static uint32_t draw(uint32_t n)
{
	static uint32_t state = 1;

	state = state * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)state * n) >> 32);
}

static void count(struct totals *totals, const struct allocation *allocation)
{
	if (!allocation || allocation->state == ALLOCATION_MAKING)
		return;
	totals->bytes += allocation->size;
	totals->by_kind[allocation->kind] += allocation->size;
	if (allocation->owner == alice)
		totals->bytes_alice += allocation->size;
	if (allocation->state == ALLOCATION_FREED)
		return;
	totals->n++;
	totals->n_alice += allocation->owner == alice;
	if (allocation->kind != KIND_HOST)
		totals->on[allocation->device]++;
}

static void expect_totals(struct allocation **named, struct allocation **freed,
			  uint64_t *peak)
{
	struct totals totals = { 0 };

	for (int i = 0; i < N_NAMES; i++) {
		count(&totals, named[i]);
		count(&totals, freed[i]);
	}
	*peak = MAX(*peak, totals.bytes);
	cr_assert(eq(u64, registry.n_allocations, totals.n));
	cr_assert(eq(u64, registry.bytes, totals.bytes));
	cr_assert(eq(u64, registry.peak_bytes, *peak));
	for (int i = 0; i < N_KINDS; i++)
		cr_assert(eq(u64, registry.bytes_by_kind[i], totals.by_kind[i]));
	for (int i = 0; i < 2; i++)
		cr_assert(eq(u64, registry.n_allocations_on[i], totals.on[i]));
	cr_assert(eq(u64, alice->n_allocations, totals.n_alice));
	cr_assert(eq(u64, alice->bytes, totals.bytes_alice));
	cr_assert(eq(u64, bob->n_allocations, totals.n - totals.n_alice));
	cr_assert(eq(u64, bob->bytes, totals.bytes - totals.bytes_alice));
}

Test(registry, totals_are_exact_after_ten_thousand_steps)
{
	struct allocation *named[N_NAMES] = { 0 }, *freed[N_NAMES] = { 0 };
	uint64_t peak = 0;

	for (int step = 0; step < N_STEPS; step++) {
		uint32_t at = draw(N_NAMES);
		struct allocation *allocation = named[at];
		char name[16];

		snprintf(name, sizeof(name), "n%u", at);
		cr_assert(eq(ptr,
			     allocation_of(folder_find(&registry.allocation_root, name)),
			     allocation));
		if (!allocation) {
			named[at] = make(name, 1 + draw(1000), draw(2) ? alice : bob);
			named[at]->kind = (uint8_t)draw(N_KINDS);
			named[at]->device = (uint8_t)draw(2);
			cr_assert(eq(int, allocation_make_rare(named[at]), 0));
		} else if (allocation->state == ALLOCATION_MAKING && draw(4)) {
			allocation_publish(&registry, allocation);
		} else if (allocation->state == ALLOCATION_LIVE && draw(4) == 0) {
			allocation->state = ALLOCATION_LOST;
		} else if (!freed[at]) {
			allocation_withdraw(&registry, allocation);
			freed[at] = take_ptr(named[at]);
		} else {
			freed[at] = allocation_free(&registry, freed[at]);
		}
		expect_totals(named, freed, &peak);
	}
	for (int i = 0; i < N_NAMES; i++) {
		freed[i] = allocation_free(&registry, freed[i]);
		if (named[i])
			drop(take_ptr(named[i]));
	}
	expect_totals(named, freed, &peak);
	cr_assert(eq(u64, registry.bytes, 0));
}

/* ---- owners and streams ---- */

Test(registry, owner_is_one_for_each_uid)
{
	cr_assert(eq(ptr, owner_get(&registry, 1000, 100), alice));
	cr_assert(ne(ptr, alice, bob));
}

Test(registry, owner_has_the_group_of_the_own_last_request)
{
	struct owner *carol = owner_make(&registry, 1003);

	cr_assert(eq(u32, carol->gid, GROUP_UNKNOWN));
	owner_get(&registry, 1003, 100);
	owner_make(&registry, 1003);
	cr_assert(eq(u32, carol->gid, 100));
	owner_get(&registry, 1003, 7);
	cr_assert(eq(u32, carol->gid, 7));
	owner_free(&registry, carol);
}

Test(registry, cgroup_is_charged_to_each_owner_with_memory_from_it)
{
	struct allocation *of_alice = make("of-alice", 4096, alice);
	struct allocation *of_bob = make("of-bob", 4096, bob);

	cr_assert(eq(int, origin_add(alice, "/job", of_alice), 0));
	cr_assert(eq(int, origin_add(bob, "/job", of_bob), 0));
	cr_expect(eq(u64, alice->shares.held[SHARE_CGROUPS], 1));
	cr_expect(eq(u64, bob->shares.held[SHARE_CGROUPS], 1));
	drop(of_alice);
	cr_expect(eq(u64, alice->shares.held[SHARE_CGROUPS], 0));
	drop(of_bob);
	cr_expect(eq(u64, bob->shares.held[SHARE_CGROUPS], 0));
}

Test(registry, allocation_of_another_owner_takes_its_cgroup_along)
{
	struct allocation *x = make("x", 4096, alice);

	cr_assert(eq(int, origin_add(alice, "/job", x), 0));
	cr_assert(eq(int, origin_move(x, bob), 0));
	cr_expect(eq(str, x->origin->cgroup, "/job"));
	cr_expect(eq(u64, alice->shares.held[SHARE_CGROUPS], 0));
	cr_expect(eq(u64, bob->shares.held[SHARE_CGROUPS], 1));
	cr_assert(eq(int, origin_move(x, alice), 0));
	drop(x);
	cr_expect(eq(u64, bob->shares.held[SHARE_CGROUPS], 0));
}

Test(registry, walk_along_an_origin_goes_on_while_allocations_come_and_go)
{
	struct allocation *a = make("a", 4096, alice), *b = make("b", 4096, alice);
	struct allocation *c = make("c", 4096, alice), *newer;
	struct origin_walk walk;

	cr_assert(eq(int, origin_add(alice, "/job", a), 0));
	cr_assert(eq(int, origin_add(alice, "/job", b), 0));
	cr_assert(eq(int, origin_add(alice, "/job", c), 0));
	origin_walk_begin(&walk, a->origin);
	cr_expect(eq(ptr, origin_walk_next(&walk), a));
	drop(b);
	newer = make("newer", 4096, alice);
	cr_assert(eq(int, origin_add(alice, "/job", newer), 0));
	cr_expect(eq(ptr, origin_walk_next(&walk), c));
	cr_expect(eq(ptr, origin_walk_next(&walk), newer));
	cr_expect(eq(ptr, origin_walk_next(&walk), NULL));
	origin_walk_end(&walk);
	drop(a);
	drop(c);
	drop(newer);
	cr_expect(eq(ptr, alice->origins, NULL));
}

Test(registry, origin_without_allocations_stays_until_the_end_of_the_walk)
{
	struct allocation *x = make("x", 4096, alice), *y = make("y", 4096, alice);
	struct origin_walk walk;

	cr_assert(eq(int, origin_add(alice, "/job", x), 0));
	cr_assert(eq(int, origin_add(alice, "/other", y), 0));
	origin_walk_begin(&walk, x->origin);
	drop(x);
	cr_expect(eq(ptr, origin_walk_next(&walk), NULL));
	cr_expect(eq(u64, alice->shares.held[SHARE_CGROUPS], 2));
	cr_expect(eq(ptr, origin_walk_end(&walk), y->origin));
	cr_expect(eq(u64, alice->shares.held[SHARE_CGROUPS], 1));
	drop(y);
}

Test(registry, default_streams_are_his_own_and_not_among_the_names)
{
	struct stream *first = owner_default_stream(&registry, alice, 0);
	struct stream *second = owner_default_stream(&registry, alice, 1);

	cr_assert(eq(ptr, owner_default_stream(&registry, alice, 0), first));
	cr_assert(ne(ptr, owner_default_stream(&registry, bob, 0), first));
	cr_assert(eq(str, first->name, "default"));
	cr_assert(eq(str, second->name, "default.1"));
	cr_assert(eq(ptr, stream_find(&registry, "default"), NULL));
	cr_assert(eq(u64, registry.n_streams, 0));
}

Test(registry, kernels_on_all_streams_of_an_owner_are_counted)
{
	struct stream *first = owner_default_stream(&registry, alice, 0), *a, *b;

	cr_assert(eq(int, stream_new(&a, &registry, "a", alice, 0, false), 0));
	cr_assert(eq(int, stream_new(&b, &registry, "b", bob, 0, false), 0));
	cr_expect(eq(ptr, alice->streams, a));
	cr_expect(eq(ptr, a->next, NULL));
	stream_add_sent(first, 1);
	stream_add_sent(a, 1);
	stream_add_sent(b, 1);
	cr_expect(eq(u32, alice->n_sent, 2));
	stream_add_sent(first, -1);
	cr_expect(eq(u32, alice->n_sent, 1));
	stream_free(&registry, a);
	stream_free(&registry, b);
	cr_expect(eq(ptr, alice->streams, NULL));
}

Test(registry, wire_ids_are_not_zero_and_used_again)
{
	struct stream *a, *b, *c, *other;

	cr_assert(eq(int, stream_new(&a, &registry, "a", alice, 0, false), 0));
	cr_assert(eq(int, stream_new(&b, &registry, "b", alice, 0, false), 0));
	cr_assert(eq(int, stream_new(&other, &registry, "other", bob, 0, false), 0));
	cr_assert(eq(int, stream_new(&c, &registry, "a", alice, 0, false), -EEXIST));
	cr_assert(eq(u32, a->wire_id, 1));
	cr_assert(eq(u32, b->wire_id, 2));
	cr_assert(eq(u32, other->wire_id, 1));
	stream_free(&registry, a);
	cr_assert(eq(int, stream_new(&c, &registry, "c", alice, 0, false), 0));
	cr_assert(eq(u32, c->wire_id, 1));
	cr_assert(eq(u64, registry.n_streams, 3));
	stream_free(&registry, b);
	stream_free(&registry, c);
	stream_free(&registry, other);
}

Test(registry, owner_has_a_limit_of_streams)
{
	static struct stream *streams[STREAMS_OF_OWNER];
	struct stream *more;
	char name[16];

	for (int i = 1; i < STREAMS_OF_OWNER; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		cr_assert(eq(int,
			     stream_new(&streams[i], &registry, name, alice, 0, false),
			     0));
		cr_assert(eq(u32, streams[i]->wire_id, (uint32_t)i));
	}
	cr_assert(
		eq(int, stream_new(&more, &registry, "more", alice, 0, false), -ENFILE));
	cr_assert(eq(ptr, stream_find(&registry, "more"), NULL));
	for (int i = 1; i < STREAMS_OF_OWNER; i++)
		stream_free(&registry, streams[i]);
}
