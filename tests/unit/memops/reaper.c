/* SPDX-License-Identifier: MIT */
#include "memops/reaper.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

#define N_LOOKED_AT 300
#define N_EVENTS    300

static struct reaper reaper;
static sem_t done;
static unsigned int n_looks;
static int fds[N_LOOKED_AT];
static bool over[N_LOOKED_AT];

static void setup(void)
{
	sem_init(&done, 0, 0);
	reaper_init(&reaper);
	for (int i = 0; i < N_LOOKED_AT; i++)
		fds[i] = eventfd(0, EFD_CLOEXEC);
}

TestSuite(reaper, .init = setup, .timeout = 60);

static bool look(int fd)
{
	__atomic_add_fetch(&n_looks, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < N_LOOKED_AT; i++) {
		if (fds[i] == fd)
			return __atomic_load_n(&over[i], __ATOMIC_SEQ_CST);
	}
	return false;
}

static void tell(void *userdata)
{
	(void)userdata;
	sem_post(&done);
}

static uint64_t add(int fd, bool (*is_over)(int fd), int64_t timeout_ms)
{
	uint64_t id = reaper_add(&reaper, &(struct awaited){ .fd = fd,
							     .events = EPOLLIN,
							     .is_over = is_over,
							     .timeout_ms = timeout_ms,
							     .done = tell });

	cr_assert(ne(u64, id, 0));
	return id;
}

static void signal_event(int fd)
{
	uint64_t one = 1;

	cr_assert(eq(sz, (size_t)write(fd, &one, sizeof(one)), sizeof(one)));
}

Test(reaper, events_of_others_are_no_reason_for_a_look)
{
	int64_t begin_ms = clock_ms(), rounds;
	unsigned int looks;

	for (int i = 0; i < N_LOOKED_AT; i++)
		add(fds[i], look, 0);
	for (int i = 0; i < N_EVENTS; i++) {
		int other = eventfd(0, EFD_CLOEXEC);

		add(other, NULL, 0);
		signal_event(other);
		sem_wait(&done);
		close(other);
	}
	/* A look a second, and the one that has begun. */
	rounds = (clock_ms() - begin_ms) / 1000 + 1;
	looks = __atomic_load_n(&n_looks, __ATOMIC_SEQ_CST);
	cr_assert(le(u64, looks, (uint64_t)rounds * N_LOOKED_AT), "%u looks in %d rounds",
		  looks, (int)rounds);
	reaper_deinit(&reaper);
}

Test(reaper, end_without_an_event_is_seen)
{
	for (int i = 0; i < N_LOOKED_AT; i++)
		add(fds[i], look, 0);
	for (int i = 0; i < N_LOOKED_AT; i += 2)
		__atomic_store_n(&over[i], true, __ATOMIC_SEQ_CST);
	for (int i = 0; i < N_LOOKED_AT; i += 2)
		sem_wait(&done);
	cr_assert(ne(int, sem_trywait(&done), 0));
	reaper_deinit(&reaper);
}

Test(reaper, event_that_is_not_the_end_is_followed_by_the_end)
{
	uint64_t id = add(fds[0], look, 0);

	signal_event(fds[0]);
	while (!__atomic_load_n(&n_looks, __ATOMIC_SEQ_CST))
		usleep(1000);
	cr_assert(reaper_has(&reaper, id));
	__atomic_store_n(&over[0], true, __ATOMIC_SEQ_CST);
	sem_wait(&done);
	cr_assert(not(reaper_has(&reaper, id)));
	reaper_deinit(&reaper);
}

static unsigned int order[3], n_order;

static void note(void *userdata)
{
	order[n_order++] = *(unsigned int *)userdata;
	sem_post(&done);
}

Test(reaper, waits_with_limits_end_in_the_order_of_their_limits)
{
	unsigned int numbers[] = { 0, 1, 2 };
	const int64_t limits[] = { 60000, 300, 100 };

	for (unsigned int i = 0; i < 3; i++)
		reaper_add(&reaper, &(struct awaited){ .fd = fds[i],
						       .events = EPOLLIN,
						       .timeout_ms = limits[i],
						       .done = note,
						       .userdata = &numbers[i] });
	sem_wait(&done);
	sem_wait(&done);
	cr_assert(eq(uint, order[0], 2));
	cr_assert(eq(uint, order[1], 1));
	reaper_deinit(&reaper); /* ends the wait that has a minute */
	cr_assert(eq(uint, n_order, 3));
}

Test(reaper, removed_is_not_told)
{
	uint64_t looked_at = add(fds[0], look, 0), limited = add(fds[1], NULL, 60000);

	cr_assert(reaper_remove(&reaper, looked_at));
	cr_assert(reaper_remove(&reaper, limited));
	cr_assert(not(reaper_remove(&reaper, limited)));
	reaper_deinit(&reaper);
	cr_assert(ne(int, sem_trywait(&done), 0));
}
