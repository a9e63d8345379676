/* SPDX-License-Identifier: MIT */
#include "base/turns.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define N_USERS 3000 /* more than there are chains */

static struct turns turns;

static void is_next(const struct turn *turn)
{
	cr_assert(eq(ptr, turns_take(&turns, NULL, NULL), (void *)turn));
}

Test(turns, each_user_is_served_before_one_is_served_twice)
{
	struct turn a[3], b[2], c;

	turns_add(&turns, 1, &a[0]);
	turns_add(&turns, 1, &a[1]);
	turns_add(&turns, 1, &a[2]);
	turns_add(&turns, 2, &b[0]);
	turns_add(&turns, 2, &b[1]);
	is_next(&a[0]);
	turns_add(&turns, 3, &c);
	is_next(&b[0]);
	is_next(&a[1]);
	is_next(&c);
	is_next(&b[1]);
	is_next(&a[2]);
	is_next(NULL);
	cr_assert(eq(uint, turns.n, 0));
}

Test(turns, any_can_be_taken_out)
{
	struct turn a[4], b;

	for (int i = 0; i < 4; i++)
		turns_add(&turns, 1, &a[i]);
	turns_add(&turns, 2, &b);
	turns_remove(&turns, &a[3]);
	turns_remove(&turns, &a[0]);
	cr_assert(eq(uint, turns.n, 3));
	is_next(&b);
	is_next(&a[1]);
	turns_remove(&turns, &a[2]);
	is_next(NULL);
	turns_add(&turns, 1, &a[3]);
	is_next(&a[3]);
	is_next(NULL);
}

Test(turns, a_user_can_be_put_behind_all_others)
{
	struct turn a[2], b, c;

	turns_add(&turns, 1, &a[0]);
	turns_add(&turns, 1, &a[1]);
	turns_add(&turns, 2, &b);
	turns_add(&turns, 3, &c);
	turns_put_last(&turns, 1);
	turns_put_last(&turns, 4);
	is_next(&b);
	turns_put_last(&turns, 3);
	is_next(&a[0]);
	turns_remove(&turns, &c);
	turns_put_last(&turns, 1);
	is_next(&a[1]);
	is_next(NULL);
}

static bool is_odd(void *userdata, uint64_t whose)
{
	++*(int *)userdata;
	return whose % 2;
}

Test(turns, those_who_may_not_be_served_keep_their_place)
{
	struct turn turn[4];
	int n_asked = 0;

	for (uint64_t i = 0; i < 4; i++)
		turns_add(&turns, i, &turn[i]);
	cr_assert(eq(ptr, turns_take(&turns, is_odd, &n_asked), &turn[1]));
	cr_assert(eq(int, n_asked, 2));
	cr_assert(eq(ptr, turns_take(&turns, is_odd, &n_asked), &turn[3]));
	cr_assert(eq(ptr, turns_take(&turns, is_odd, &n_asked), NULL));
	is_next(&turn[0]);
	is_next(&turn[2]);
}

Test(turns, many_users_take_turns)
{
	static struct turn turn[2][N_USERS];

	for (int round = 0; round < 2; round++)
		for (uint64_t i = 0; i < N_USERS; i++)
			turns_add(&turns, i, &turn[round][i]);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < N_USERS; i++)
			is_next(&turn[round][i]);
	is_next(NULL);
}
