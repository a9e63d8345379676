/* SPDX-License-Identifier: MIT */
/*
 * A crew: a few threads for long work that waits for nobody, such as making memory, so
 * that such work holds up no thread of the view.
 *
 * Each task has an owner. Owners with tasks take turns, and an owner has at most
 * CREW_SHARE threads at a time. So the tasks of an owner, however many or long, leave
 * threads for others.
 */
#pragma once

#include <pthread.h>

#include "base/def.h"

#define CREW_THREADS 8
#define CREW_SHARE   2 /* threads for the tasks of an owner */

struct task {
	void (*run)(struct task *task);

	/* private to the crew */
	uint64_t whose;
	struct task *prev, *next;	   /* first tasks of other owners */
	struct task *behind, *last_behind; /* later tasks of the same owner; last_behind
					      is valid in the first */
};

struct crew {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct task *firsts; /* first task of each owner, in turn */
	const struct task *running[CREW_THREADS];
	bool stop;
	unsigned int n_threads;
	pthread_t threads[CREW_THREADS];
};

/* Returns: 0; -EAGAIN. */
int crew_init(struct crew *crew);
/* Finishes all tasks, then ends the threads. */
void crew_deinit(struct crew *crew);
void crew_add(struct crew *crew, uint64_t whose, struct task *task);
