/* SPDX-License-Identifier: MIT */
/*
 * A work queue: a few threads for long work that waits for nobody, such as making memory.
 * So long work holds up no thread of the view.
 *
 * Each task has an owner. Owners with tasks take turns, and an owner has at most
 * WORKQUEUE_SHARE threads at a time. So the tasks of an owner, however many or long,
 * leave threads for others.
 */
#pragma once

#include <pthread.h>

#include "base/def.h"

#define WORKQUEUE_THREADS 8
#define WORKQUEUE_SHARE	  2 /* threads for the tasks of an owner */

struct task {
	void (*run)(struct task *task);

	/* private to the work queue */
	uint64_t whose;
	struct task *prev, *next;	   /* first tasks of other owners */
	struct task *behind, *last_behind; /* later tasks of the same owner; last_behind
					      is valid in the first */
};

struct workqueue {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct task *firsts; /* first task of each owner, in turn */
	const struct task *running[WORKQUEUE_THREADS];
	bool stop;
	unsigned int n_threads;
	pthread_t threads[WORKQUEUE_THREADS];
};

/* Returns: 0; -EAGAIN. */
int workqueue_init(struct workqueue *workqueue);
/* Finishes all tasks, then ends the threads. */
void workqueue_deinit(struct workqueue *workqueue);
void workqueue_add(struct workqueue *workqueue, uint64_t whose, struct task *task);
