/* SPDX-License-Identifier: MIT */
/*
 * A crew: a few threads for work that takes long without waiting for anybody, such as
 * making gigabytes of host memory, so that no thread of the view is held up by it.
 */
#pragma once

#include <pthread.h>

#include "base/def.h"

struct task {
	void (*run)(struct task *task);
	struct task *next;
};

#define CREW_THREADS 2

struct crew {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct task *first, **last;
	bool stop;
	unsigned int n_threads;
	pthread_t threads[CREW_THREADS];
};

/* Returns: 0; -EAGAIN. */
int crew_init(struct crew *crew);
/* Finishes what there is to do, then ends. */
void crew_deinit(struct crew *crew);
void crew_add(struct crew *crew, struct task *task);
