/* SPDX-License-Identifier: MIT */
#include "base/workqueue.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <semaphore.h>

#define N 50

static struct workqueue workqueue;
static sem_t go, done;
static unsigned int n_at_once, n_most;

static void setup(void)
{
	sem_init(&go, 0, 0);
	sem_init(&done, 0, 0);
	cr_assert(eq(int, workqueue_init(&workqueue, WORKQUEUE_THREADS, WORKQUEUE_SHARE),
		     0));
}

TestSuite(workqueue, .init = setup, .timeout = 60);

static void stay(struct task *task)
{
	unsigned int n = __atomic_add_fetch(&n_at_once, 1, __ATOMIC_SEQ_CST);

	(void)task;
	if (n > __atomic_load_n(&n_most, __ATOMIC_SEQ_CST))
		__atomic_store_n(&n_most, n, __ATOMIC_SEQ_CST);
	sem_wait(&go);
	__atomic_sub_fetch(&n_at_once, 1, __ATOMIC_SEQ_CST);
}

static void tell(struct task *task)
{
	(void)task;
	sem_post(&done);
}

Test(workqueue, tasks_of_one_that_take_long_do_not_hold_up_those_of_another)
{
	struct task slow[N] = { 0 }, quick[N] = { 0 };

	for (int i = 0; i < N; i++) {
		slow[i].run = stay;
		workqueue_add(&workqueue, 1, &slow[i]);
	}
	for (int i = 0; i < N; i++) {
		quick[i].run = tell;
		workqueue_add(&workqueue, 2, &quick[i]);
	}
	for (int i = 0; i < N; i++)
		sem_wait(&done);
	cr_assert(le(uint, __atomic_load_n(&n_most, __ATOMIC_SEQ_CST), WORKQUEUE_SHARE));
	for (int i = 0; i < N; i++)
		sem_post(&go);
	workqueue_deinit(&workqueue);
	cr_assert(eq(uint, n_most, WORKQUEUE_SHARE));
}

Test(workqueue, slow_tasks_of_one_do_not_hold_up_those_of_another)
{
	struct task slow[N] = { 0 }, other = { .run = tell, .length = TASK_SLOW };

	for (int i = 0; i < N; i++) {
		slow[i] = (struct task){ .run = stay, .length = TASK_SLOW };
		workqueue_add(&workqueue, i % 2 ? 1 : 1 | WORKQUEUE_RELEASES, &slow[i]);
	}
	workqueue_add(&workqueue, 2, &other);
	sem_wait(&done);
	for (int i = 0; i < N; i++)
		sem_post(&go);
	workqueue_deinit(&workqueue);
	cr_assert(eq(uint, n_most, 1));
}

Test(workqueue, end_finishes_what_there_is_to_do)
{
	struct task tasks[N] = { 0 };
	int n = 0;

	for (int i = 0; i < N; i++) {
		tasks[i].run = tell;
		workqueue_add(&workqueue, (uint64_t)i / 10, &tasks[i]);
	}
	workqueue_deinit(&workqueue);
	while (sem_trywait(&done) == 0)
		n++;
	cr_assert(eq(int, n, N));
}

/* Of N owners each has a task of one length that stays, and a shorter one. */
static void expect_others_run(enum task_length length, enum task_length shorter,
			      unsigned int most)
{
	struct task slow[N] = { 0 }, quick[N] = { 0 };

	for (int i = 0; i < N; i++) {
		slow[i] = (struct task){ .run = stay, .length = length };
		workqueue_add(&workqueue, (uint64_t)i, &slow[i]);
	}
	for (int i = 0; i < N; i++) {
		quick[i] = (struct task){ .run = tell, .length = shorter };
		workqueue_add(&workqueue, (uint64_t)i % 3, &quick[i]);
	}
	for (int i = 0; i < N; i++)
		sem_wait(&done);
	cr_assert(le(uint, __atomic_load_n(&n_most, __ATOMIC_SEQ_CST), most));
	for (int i = 0; i < N; i++)
		sem_post(&go);
	workqueue_deinit(&workqueue);
	cr_assert(eq(uint, n_most, most));
}

Test(workqueue, long_tasks_of_many_do_not_hold_up_short_ones)
{
	expect_others_run(TASK_LONG, TASK_SHORT, WORKQUEUE_LONG);
}

Test(workqueue, slow_tasks_of_many_do_not_hold_up_long_ones)
{
	expect_others_run(TASK_SLOW, TASK_LONG, WORKQUEUE_SLOW);
}

Test(workqueue, slow_tasks_of_many_do_not_hold_up_short_ones)
{
	expect_others_run(TASK_SLOW, TASK_SHORT, WORKQUEUE_SLOW);
}

/* Slow ones count as long ones. */
Test(workqueue, long_and_slow_tasks_of_many_leave_threads_to_short_ones)
{
	struct task slow[N] = { 0 }, quick[N] = { 0 };

	for (int i = 0; i < N; i++) {
		slow[i] = (struct task){ .run = stay,
					 .length = i % 2 ? TASK_LONG : TASK_SLOW };
		workqueue_add(&workqueue, (uint64_t)i, &slow[i]);
	}
	for (int i = 0; i < N; i++) {
		quick[i].run = tell;
		workqueue_add(&workqueue, (uint64_t)i % 3, &quick[i]);
	}
	for (int i = 0; i < N; i++)
		sem_wait(&done);
	for (int i = 0; i < N; i++)
		sem_post(&go);
	workqueue_deinit(&workqueue);
	cr_assert(eq(uint, n_most, WORKQUEUE_LONG));
}
