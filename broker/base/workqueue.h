/* SPDX-License-Identifier: MIT */
/*
 * A work queue: a few threads for long work that waits for nobody, such as making memory.
 * So long work holds up no thread of the view.
 *
 * Each task has an owner. Owners with tasks take turns, and an owner has at most
 * WORKQUEUE_SHARE threads at a time. Tasks that may take more than some 50 ms say so: the
 * long tasks of all owners have WORKQUEUE_LONG threads at most. So neither the tasks of
 * one owner nor the long ones of many hold up the short ones of others.
 */
#pragma once

#include <pthread.h>

#include "base/def.h"
#include "base/turns.h"

#define WORKQUEUE_THREADS 8
#define WORKQUEUE_SHARE	  2 /* threads for the tasks of an owner */
#define WORKQUEUE_LONG	  4 /* threads for long tasks */

/* Memory of more bytes than that is long to make, to copy and to give back. */
#define WORKQUEUE_LONG_BYTES ((uint64_t)64 << 20)

struct task {
	void (*run)(struct task *task);
	bool is_long;

	struct turn turn; /* private to the work queue */
};

struct workqueue {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct turns waiting[2]; /* short tasks, long tasks */
	const struct task *running[WORKQUEUE_THREADS];
	bool long_is_next;
	bool stop;
	unsigned int n_threads;
	pthread_t threads[WORKQUEUE_THREADS];
};

/* Returns: 0; -EAGAIN. */
int workqueue_init(struct workqueue *workqueue);
/* Finishes all tasks, then ends the threads. */
void workqueue_deinit(struct workqueue *workqueue);
void workqueue_add(struct workqueue *workqueue, uint64_t whose, struct task *task);
