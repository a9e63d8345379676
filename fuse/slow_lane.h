/* SPDX-License-Identifier: MIT */
/*
 * A thread for requests whose handlers may take long. Such requests wait for each other
 * here, and hold up no thread that serves everybody. Users take turns.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

struct slow_request;

struct slow_lane {
	void (*serve)(void *userdata, const struct fuse_buf *request);
	void *userdata;
	pthread_t thread;
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t changed;
	struct slow_request *waiting;
	uid_t last;   /* served */
	bool serving; /* a request */
	bool ending;
};

/* Starts the thread. Returns: 0; -errno. */
int slow_lane_init(struct slow_lane *lane,
		   void (*serve)(void *userdata, const struct fuse_buf *request),
		   void *userdata);

/* Serves the waiting requests, and ends the thread. */
void slow_lane_deinit(struct slow_lane *lane);

/* Takes a copy of the request. Returns: false: no memory. */
bool slow_lane_add(struct slow_lane *lane, const struct fuse_buf *request);

/* Waits until all requests have been served. */
void slow_lane_drain(struct slow_lane *lane);
