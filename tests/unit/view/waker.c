/* SPDX-License-Identifier: MIT */
#include "waker.h"

#include "base/def.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <unistd.h>

static struct wakers wakers;
static const struct waker *served[8];
static unsigned int n_served; /* atomic */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void serve(struct waker *waker)
{
	unsigned int n;

	pthread_mutex_lock(&gate);
	n = __atomic_load_n(&n_served, __ATOMIC_RELAXED);
	served[n] = waker;
	__atomic_store_n(&n_served, n + 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&gate);
}

static void wait_for(unsigned int n)
{
	while (__atomic_load_n(&n_served, __ATOMIC_ACQUIRE) < n)
		usleep(1000);
}

static void setup(void)
{
	cr_assert(eq(int, wakers_init(&wakers), 0));
}

TestSuite(waker, .init = setup, .timeout = 60);

Test(waker, files_of_other_openers_take_turns)
{
	static const uid_t uids[] = { 1, 1, 1, 1, 2 };
	struct waker waker[ARRAY_SIZE(uids)];

	pthread_mutex_lock(&gate);
	for (size_t i = 0; i < ARRAY_SIZE(uids); i++) {
		waker_init(&waker[i], &wakers, uids[i], serve);
		waker_wake(&waker[i]);
	}
	pthread_mutex_unlock(&gate);
	wait_for(5);
	/* The first may have been in hand before the others came. */
	cr_assert(eq(ptr, (void *)served[0], &waker[0]));
	cr_assert(served[1] == &waker[4] || served[2] == &waker[4]);
	cr_assert(eq(ptr, (void *)served[4], &waker[3]));
	wakers_deinit(&wakers);
}

Test(waker, a_file_that_has_left_is_not_served)
{
	struct waker first, left, last;

	waker_init(&first, &wakers, 1, serve);
	waker_init(&left, &wakers, 1, serve);
	waker_init(&last, &wakers, 1, serve);
	pthread_mutex_lock(&gate);
	waker_wake(&first);
	waker_wake(&left);
	waker_wake(&last);
	waker_leave(&left);
	waker_wake(&left);
	pthread_mutex_unlock(&gate);
	wait_for(2);
	wakers_deinit(&wakers);
	cr_assert(eq(uint, n_served, 2));
	cr_assert(eq(ptr, (void *)served[1], &last));
}
