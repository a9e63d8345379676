/* SPDX-License-Identifier: MIT */
/* The set of addresses that a worker has used before, against a model with a bit each. */
#include "worker/address_history.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#define N_ADDRESSES 400
#define N_STEPS	    10000

static uint32_t draw(uint32_t n)
{
	static uint32_t state = 1;

	state = state * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)state * n) >> 32);
}

static void expect_sorted_and_apart(const struct seen *seen, const bool *had)
{
	bool in[N_ADDRESSES] = { false };

	for (size_t i = 0; i < seen->n; i++) {
		cr_assert(lt(u64, seen->ranges[i].begin, seen->ranges[i].end));
		if (i)
			cr_assert(
				lt(u64, seen->ranges[i - 1].end, seen->ranges[i].begin));
		for (uint64_t at = seen->ranges[i].begin; at < seen->ranges[i].end; at++)
			in[at] = true;
	}
	cr_assert(eq(int, memcmp(in, had, sizeof(in)), 0));
}

Test(seen, ranges_that_only_touch_were_not_there)
{
	struct seen seen = { .lock = PTHREAD_MUTEX_INITIALIZER };

	cr_assert(not(seen_add(&seen, 10, 20)));
	cr_assert(not(seen_add(&seen, 20, 30)));
	cr_assert(not(seen_add(&seen, 0, 10)));
	cr_assert(eq(sz, seen.n, 1));
	cr_assert(seen_add(&seen, 29, 31));
	cr_assert(seen_add(&seen, 5, 6));
	free(seen.ranges);
}

Test(seen, every_range_is_known_after_ten_thousand)
{
	struct seen seen = { .lock = PTHREAD_MUTEX_INITIALIZER };
	bool had[N_ADDRESSES] = { false };

	for (int step = 0; step < N_STEPS; step++) {
		uint64_t begin = draw(N_ADDRESSES), n = 1 + draw(3);
		uint64_t end = MIN(begin + n, (uint64_t)N_ADDRESSES);
		bool overlap = false;

		for (uint64_t at = begin; at < end; at++) {
			overlap |= had[at];
			had[at] = true;
		}
		cr_assert(eq(int, seen_add(&seen, begin, end), overlap));
		expect_sorted_and_apart(&seen, had);
		/* A nearly full set tests nothing more: start anew. */
		if (seen.n == 1 && seen.ranges[0].end - seen.ranges[0].begin > 380) {
			seen.n = 0;
			memset(had, 0, sizeof(had));
		}
	}
	free(seen.ranges);
}
