/* SPDX-License-Identifier: MIT */
/*
 * The linker sends each look at the clock to a clock of the test's own, and each
 * pthread_mutex_lock() through a counter.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/def.h"
#include "model/registry.h"
#include "op/op.h"
#include "process/processes.h"

#define N_MANY	      100000
#define DOZENS	      64
#define DAY_MS	      86400000
#define N_NOTED	      1000
#define BETWEEN_SETS  3
#define LONGEST_SPINE 17 /* 2^17 > N_MANY */

static int64_t now_ms = 1000;
static unsigned int n_takings;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	(void)clock;
	*now = (struct timespec){ now_ms / 1000, now_ms % 1000 * 1000000 };
	return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	n_takings++;
	return __real_pthread_mutex_lock(mutex);
}

static struct registry registry = { .lock = PTHREAD_MUTEX_INITIALIZER };
static struct processes processes = { .housekeeper_wake = PTHREAD_COND_INITIALIZER };
static struct ops ops;
static struct broker broker = { .registry = &registry,
				.processes = &processes,
				.ops = &ops };

static struct deadline deadlines[2 * N_MANY];

static unsigned int passed[N_NOTED], n_passed;

static void note(struct deadline *deadline)
{
	if (n_passed < N_NOTED)
		passed[n_passed] = (unsigned int)(deadline - deadlines);
	n_passed++;
}

static void set(unsigned int i, uint32_t ms, void (*function)(struct deadline *deadline))
{
	pthread_mutex_lock(&registry.lock);
	deadline_set(&broker, &deadlines[i], ms, function);
	pthread_mutex_unlock(&registry.lock);
}

static void clear(unsigned int i)
{
	pthread_mutex_lock(&registry.lock);
	deadline_clear(&broker, &deadlines[i]);
	pthread_mutex_unlock(&registry.lock);
}

/* Returns: milliseconds until the next deadline; -1: there is none. */
static int64_t check(void)
{
	int64_t next;

	do {
		next = deadlines_check(&broker);
	} while (next == 0);
	return next;
}

TestSuite(deadline, .timeout = 60);

Test(deadline, the_earliest_passes_first)
{
	static const uint32_t ms[] = { 50, 20, 70, 10, 60, 30, 40 };
	static const unsigned int order[] = { 3, 1, 5, 6, 0, 4, 2 };

	for (unsigned int i = 0; i < ARRAY_SIZE(ms); i++)
		set(i, ms[i], note);
	now_ms += 5;
	cr_expect(eq(i64, check(), 5));
	now_ms += 30;
	cr_expect(eq(i64, check(), 5));
	cr_expect(eq(uint, n_passed, 3));
	now_ms += DAY_MS;
	cr_expect(eq(i64, check(), -1));
	cr_assert(eq(uint, n_passed, ARRAY_SIZE(ms)));
	for (unsigned int i = 0; i < ARRAY_SIZE(ms); i++)
		cr_expect(eq(uint, passed[i], order[i]));
}

Test(deadline, a_deadline_that_is_set_again_passes_once_at_its_new_time)
{
	set(0, 10, note);
	set(1, 20, note);
	set(0, 30, note);
	now_ms += 25;
	cr_expect(eq(i64, check(), 5));
	cr_expect(eq(uint, n_passed, 1));
	cr_expect(eq(uint, passed[0], 1));
	now_ms += 5;
	cr_expect(eq(i64, check(), -1));
	cr_expect(eq(uint, n_passed, 2));
	cr_expect(eq(uint, passed[1], 0));
}

Test(deadline, what_is_cleared_does_not_pass_and_the_others_keep_their_order)
{
	bool is_set[N_NOTED] = { false };
	int64_t at_ms[N_NOTED], last_ms = 0;
	unsigned int n_set = 0;

	srand(1);
	for (unsigned int n = 0; n < 20 * N_NOTED; n++) {
		unsigned int i = (unsigned int)rand() % N_NOTED;
		uint32_t ms = 1 + (uint32_t)rand() % DAY_MS;

		n_set -= is_set[i];
		is_set[i] = n % BETWEEN_SETS != 0;
		n_set += is_set[i];
		at_ms[i] = now_ms + ms;
		if (is_set[i])
			set(i, ms, note);
		else
			clear(i);
	}
	now_ms += DAY_MS;
	cr_expect(eq(i64, check(), -1));
	cr_assert(eq(uint, n_passed, n_set));
	for (unsigned int n = 0; n < n_set; n++) {
		cr_assert(is_set[passed[n]]);
		cr_assert(ge(i64, at_ms[passed[n]], last_ms));
		last_ms = at_ms[passed[n]];
	}
}

static void set_again(struct deadline *deadline)
{
	note(deadline);
	deadline_set(&broker, deadline, 1, set_again);
}

static void clear_the_next(struct deadline *deadline)
{
	note(deadline);
	deadline_clear(&broker, deadline + 1);
}

Test(deadline, one_that_is_set_again_as_it_passes_waits_for_the_next_check)
{
	for (unsigned int i = 0; i < 200; i++)
		set(i, 10, set_again);
	now_ms += 10;
	cr_expect(eq(i64, check(), 1));
	cr_expect(eq(uint, n_passed, 200));
	now_ms++;
	cr_expect(eq(i64, check(), 1));
	cr_expect(eq(uint, n_passed, 400));
}

Test(deadline, one_that_passes_may_clear_another_that_has_passed)
{
	set(0, 10, clear_the_next);
	set(1, 20, note);
	set(2, 30, note);
	now_ms += 30;
	cr_expect(eq(i64, check(), -1));
	cr_expect(eq(uint, n_passed, 2));
	cr_expect(eq(uint, passed[1], 2));
}

/* Each request waits for the lock. */
Test(deadline, the_lock_is_let_go_after_dozens)
{
	unsigned int most = 0, before, takings;
	int64_t next;

	for (unsigned int i = 0; i < N_NOTED; i++)
		set(i, 10, note);
	now_ms += 10;
	do {
		before = n_passed;
		takings = n_takings;
		next = deadlines_check(&broker);
		cr_assert(gt(uint, n_takings, takings));
		most = MAX(most, (n_passed - before) / (n_takings - takings));
	} while (next == 0);
	cr_expect(eq(uint, n_passed, N_NOTED));
	cr_expect(le(uint, most, DOZENS));
}

/* How far a deadline is from the end of the heap at most, the shortest way. */
static unsigned int spine(void)
{
	unsigned int n = 0;

	for (const struct deadline *at = ops.deadlines; at; at = at->right)
		n++;
	return n;
}

/* A scan of those in front takes 10,000,000,000 steps. */
Test(deadline, a_hundred_thousand_pass_behind_as_many_that_do_not, .timeout = 10)
{
	unsigned int longest = 0;

	for (unsigned int i = 0; i < N_MANY; i++)
		set(i, DAY_MS, note);
	for (unsigned int i = N_MANY; i < 2 * N_MANY; i++)
		set(i, 10, note);
	now_ms += 10;
	while (deadlines_check(&broker) == 0)
		longest = MAX(longest, spine());
	cr_expect(eq(uint, n_passed, N_MANY));
	for (unsigned int i = 0; i < N_MANY; i++) {
		clear(i * 7919u % N_MANY);
		longest = MAX(longest, spine());
	}
	cr_expect(eq(i64, check(), -1));
	cr_expect(le(uint, longest, LONGEST_SPINE));
}
