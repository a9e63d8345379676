/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "channel/channel.h"
#include "channel/inflight.h"

TestSuite(inflight, .timeout = 10);

/* A worker that dies has them all answered under the lock of its link. */
Test(inflight, many_questions_are_taken_out_in_time)
{
	enum { N = 1 << 18 };
	struct ask_table table = ASK_TABLE_INIT;
	struct ask *asks = calloc(N, sizeof(*asks));
	struct ask *ask;
	size_t n = 0;

	for (size_t i = 0; i < N; i++)
		cr_assert(eq(int, ask_table_add(&table, &asks[i]), 0));
	for (; (ask = ask_table_pop(&table)); n++)
		cr_assert(ask >= asks && ask < asks + N);
	cr_assert(eq(sz, n, N));
	ask_table_deinit(&table);
	free(asks);
}

Test(inflight, question_asked_in_a_free_slot_is_taken_out)
{
	struct ask_table table = ASK_TABLE_INIT;
	struct ask first = { 0 }, second = { 0 }, third = { 0 };

	cr_assert(eq(int, ask_table_add(&table, &first), 0));
	cr_assert(eq(int, ask_table_add(&table, &second), 0));
	cr_assert(ask_table_pop(&table) == &first);
	cr_assert(ask_table_pop(&table) == &second);
	cr_assert(eq(int, ask_table_add(&table, &third), 0));
	cr_assert(ask_table_pop(&table) == &third);
	cr_assert(ask_table_pop(&table) == NULL);
	ask_table_deinit(&table);
}
