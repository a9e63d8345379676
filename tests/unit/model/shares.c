/* SPDX-License-Identifier: MIT */
#include "model/shares.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>

#include "base/text.h"
#include "model/owner.h"
#include "model/registry.h"

#define MIB ((uint64_t)1 << 20)

static struct registry registry;
static struct owner *alice;

static void begin(void)
{
	registry_init(&registry);
	alice = owner_get(&registry, 1000, 1000);
}

static void end(void)
{
	registry_deinit(&registry);
}

TestSuite(shares, .init = begin, .fini = end);

static void limit(struct limits *limits, enum share share, uint64_t max)
{
	limits->max[share] = max;
	limits->given |= (uint32_t)1 << share;
}

Test(shares, a_limit_is_reached_and_never_passed)
{
	limit(&alice->shares.limits, SHARE_HOST, 10);
	cr_assert(eq(int, share_take(alice, SHARE_HOST, 7), 0));
	cr_assert(eq(int, share_take(alice, SHARE_HOST, 4), -EDQUOT));
	cr_assert(eq(int, share_take(alice, SHARE_HOST, UINT64_MAX), -ENOMEM));
	cr_assert(eq(int, share_take(alice, SHARE_HOST, 3), 0));
	cr_assert(eq(int, share_take(alice, SHARE_HOST, 1), -EDQUOT));
	cr_assert(eq(u64, alice->shares.held[SHARE_HOST], 10));
	share_give(alice, SHARE_HOST, 10);
	cr_assert(eq(u64, share_peak(alice, SHARE_HOST), 10));
}

Test(shares, an_owners_own_limit_is_in_force_before_the_default)
{
	cr_assert(eq(u64, share_limit(alice, SHARE_LEASES), LIMIT_NONE));
	limit(&registry.limits, SHARE_LEASES, 1);
	cr_assert(eq(u64, share_limit(alice, SHARE_LEASES), 1));
	limit(&alice->shares.limits, SHARE_LEASES, 2);
	cr_assert(eq(u64, share_limit(alice, SHARE_LEASES), 2));
	limit(&alice->shares.limits, SHARE_LEASES, LIMIT_NONE);
	cr_assert(eq(u64, share_limit(alice, SHARE_LEASES), LIMIT_NONE));
}

/* What is held is not taken away. */
Test(shares, a_limit_below_what_is_held_refuses_all_more)
{
	cr_assert(eq(int, share_take(alice, SHARE_MODULES, 3), 0));
	limit(&alice->shares.limits, SHARE_MODULES, 1);
	cr_assert(eq(int, share_take(alice, SHARE_MODULES, 1), -EDQUOT));
	cr_assert(eq(int, share_take(alice, SHARE_MODULES, 0), 0));
	share_give(alice, SHARE_MODULES, 3);
}

Test(shares, a_refusal_that_is_told_is_counted_and_has_all_three_numbers)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	limit(&alice->shares.limits, SHARE_DEVICE + 1, 4 * MIB);
	cr_assert(eq(int, share_take(alice, SHARE_DEVICE + 1, 3 * MIB), 0));
	cr_assert(eq(int, share_take(alice, SHARE_DEVICE + 1, 2 * MIB), -EDQUOT));
	cr_assert(eq(u64, alice->shares.n_refused[SHARE_DEVICE + 1], 0));
	share_explain(alice, &text);
	cr_assert(eq(u64, alice->shares.n_refused[SHARE_DEVICE + 1], 1));
	cr_assert(eq(str, (char *)text_string(&text),
		     "uid 1000 has 3 MiB of the memory of device 1 and asks for 2 MiB "
		     "more: the limit is 4 MiB (owners/1000/max)"));
	share_give(alice, SHARE_DEVICE + 1, 3 * MIB);
}

Test(shares, what_could_not_be_made_is_in_no_peak)
{
	cr_assert(eq(int, share_take(alice, SHARE_HOST, 5), 0));
	share_undo(alice, SHARE_HOST, 5);
	cr_assert(eq(u64, share_peak(alice, SHARE_HOST), 0));
}

Test(shares, images_count_as_memory_of_the_host)
{
	limit(&alice->shares.limits, SHARE_HOST, 100);
	cr_assert(eq(int, share_take(alice, SHARE_LOADED, 60), 0));
	cr_assert(eq(int, share_take(alice, SHARE_IMAGES, 50), -EDQUOT));
	cr_assert(eq(u64, alice->shares.held[SHARE_IMAGES], 0));
	cr_assert(eq(u64, alice->shares.held[SHARE_HOST], 60));
	share_give(alice, SHARE_LOADED, 60);
	cr_assert(eq(u64, alice->shares.held[SHARE_HOST], 0));
}

Test(shares, small_pieces_share_chunks_and_large_ones_are_rounded)
{
	const enum share share = SHARE_DEVICE;

	for (int i = 0; i < 5; i++)
		cr_assert(eq(int, share_take_pieces(alice, 0, false, MIB / 2), 0));
	cr_assert(eq(u64, alice->shares.held[share], 4 * MIB));
	cr_assert(eq(int, share_take_pieces(alice, 0, true, 1), 0));
	cr_assert(eq(u64, alice->shares.held[share], 6 * MIB));
	cr_assert(eq(int, share_take_pieces(alice, 0, true, 3 * MIB), 0));
	cr_assert(eq(u64, alice->shares.held[share], 10 * MIB));
	share_give_pieces(alice, 0, true, 3 * MIB, false);
	share_give_pieces(alice, 0, true, 1, false);
	for (int i = 0; i < 5; i++)
		share_give_pieces(alice, 0, false, MIB / 2, false);
	cr_assert(eq(u64, alice->shares.held[share], 0));
	cr_assert(eq(u64, share_peak(alice, share), 10 * MIB));
}
