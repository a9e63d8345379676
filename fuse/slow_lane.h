/* SPDX-License-Identifier: MIT */
/*
 * A thread for requests whose handlers may take long, or wait for a user. Such requests
 * wait for each other here, and hold up no thread that serves everybody. Users take turns. The next broker
 * can do each of these requests again (repeated.h).
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include "base/turns.h"

struct slow_lane {
	void (*serve)(void *userdata, const struct fuse_buf *request);
	void *userdata;
	pthread_t thread;
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t changed;
	struct turns waiting;
	bool serving; /* a request */
	bool held;
	bool ending;
};

/* Starts the thread. Returns: 0; -errno. */
int slow_lane_init(struct slow_lane *lane,
		   void (*serve)(void *userdata, const struct fuse_buf *request),
		   void *userdata);

/* Ends the thread after the request in hand. Those that wait get no answer. */
void slow_lane_deinit(struct slow_lane *lane);

/* Takes a copy of the request, for a turn of that user. Returns: false: no memory. */
bool slow_lane_add(struct slow_lane *lane, uint64_t user, const struct fuse_buf *request);

/* A lane that is held serves no request: they are for the next broker, or for later. */
void slow_lane_hold(struct slow_lane *lane, bool held);

/* How many are in hand, or wait and will be served. */
unsigned int slow_lane_n_left(struct slow_lane *lane);
