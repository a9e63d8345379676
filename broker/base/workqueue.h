/* SPDX-License-Identifier: MIT */
/*
 * A crew: a few threads for work that takes long without waiting for anybody, such as
 * making memory, so that no thread of the view is held up by it.
 *
 * Each task is somebody's. Those with tasks take turns, and nobody has more than
 * CREW_SHARE threads at a time: however many tasks one has, and however long they take,
 * the next one of somebody else finds a thread.
 */
#pragma once

#include <pthread.h>

#include "base/def.h"

#define CREW_THREADS 8
#define CREW_SHARE   2 /* threads for the tasks of one */

struct task {
	void (*run)(struct task *task);

	/* private to the crew */
	uint64_t whose;
	struct task *prev, *next; /* first tasks of others */
	struct task *behind,
		*last_behind; /* more of the same; last_behind of the first */
};

struct crew {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct task *firsts; /* the first task of each, in turn */
	const struct task *running[CREW_THREADS];
	bool stop;
	unsigned int n_threads;
	pthread_t threads[CREW_THREADS];
};

/* Returns: 0; -EAGAIN. */
int crew_init(struct crew *crew);
/* Finishes what there is to do, then ends. */
void crew_deinit(struct crew *crew);
void crew_add(struct crew *crew, uint64_t whose, struct task *task);
