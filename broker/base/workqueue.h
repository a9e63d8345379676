/* SPDX-License-Identifier: MIT */
/*
 * A work queue: a few threads for long work that waits for nobody, such as making memory.
 * So long work holds up no thread of the view.
 *
 * Each task has an owner. Owners with tasks take turns, and an owner has at most a share
 * of the threads at a time. A task says how long it may take. The long tasks of
 * all owners have WORKQUEUE_LONG threads at most, and of these the slow ones
 * WORKQUEUE_SLOW. So neither the tasks of one owner nor those of many hold up shorter
 * ones of others.
 */
#pragma once

#include <pthread.h>

#include "base/def.h"
#include "base/turns.h"

#define WORKQUEUE_THREADS      8
#define WORKQUEUE_THREADS_MOST 16
#define WORKQUEUE_SHARE	       2 /* threads for the tasks of an owner */
#define WORKQUEUE_LONG	       4 /* threads for long and slow tasks */
#define WORKQUEUE_SLOW	       2 /* threads for slow tasks; an owner has one of them */

/*
 * Added to an owner: tasks that give memory back count as tasks of another owner. So they
 * are not queued behind those that make memory, which may wait for them.
 */
#define WORKQUEUE_RELEASES ((uint64_t)1 << 32)

/* The same for tries of allocations that wait in a queue, where others wait for the try.
 */
#define WORKQUEUE_TRIES ((uint64_t)1 << 33)

enum task_length {
	TASK_SHORT, /* some 50 ms at most */
	TASK_LONG,  /* some 0.2 s at most; or a driver's call, of which nobody knows */
	TASK_SLOW,  /* more */
	N_TASK_LENGTHS,
};

struct task {
	void (*run)(struct task *task);
	enum task_length length;

	struct turn turn; /* private to the work queue */
};

struct workqueue {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct turns waiting[N_TASK_LENGTHS];
	const struct task *running[WORKQUEUE_THREADS_MOST];
	unsigned int next; /* length of which a task is taken first */
	bool stop;
	unsigned int n_threads, n_most;
	unsigned int share; /* threads for the tasks of an owner */
	pthread_t threads[WORKQUEUE_THREADS_MOST];
};

/* Of a task that asks the driver for so many bytes, or gives memory back. */
enum task_length task_length_of_call(uint64_t bytes);
/* Of a task that makes the pages of so many bytes, or writes to all of them. */
enum task_length task_length_of_filling(uint64_t bytes);

/*
 * With so many threads, WORKQUEUE_THREADS_MOST at most, of which an owner has that share.
 * Returns: 0; -EAGAIN.
 */
int workqueue_init(struct workqueue *workqueue, unsigned int n_threads,
		   unsigned int share);
/* Finishes all tasks, then ends the threads. */
void workqueue_deinit(struct workqueue *workqueue);
void workqueue_add(struct workqueue *workqueue, uint64_t whose, struct task *task);
