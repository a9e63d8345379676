/* SPDX-License-Identifier: MIT */
/*
 * Kernels: LAUNCH.
 *
 * Launches enter the GPU's queues in the order received, by one thread at a time. Each
 * stream with launches under way has a thread that waits for their ends and answers.
 */
#pragma once

#include "base/def.h"
#include "cuda/driver.h"

#include <gpumem/wire.h>

struct job;
struct worker;

/* Launches that have been received and are not in the GPU's queues yet. */
struct launch_queue {
	struct job *first; /* under the streams' lock, like all fields here */
	struct job **end;
	bool taken; /* a thread is putting the launches into the GPU's queues */
	struct job *in_flight;		   /* in the GPU's queues; key: request id */
	CUevent *events[WIRE_DEVICES_MAX]; /* events not in use by a launch */
	unsigned int n_events[WIRE_DEVICES_MAX];
	unsigned int events_capacity[WIRE_DEVICES_MAX];
};

/*
 * Queues a launch. Returns: true when the caller has to call launch_run(); false when
 * another thread is doing so.
 */
bool launch_receive(struct worker *worker, struct job *job);

/*
 * Puts received launches into the GPU's queues, queues jobs that wait for streams, and
 * waits for one stream itself. The job comes from launch_receive(), or from pool_queue()
 * for waiting only.
 */
void launch_run(struct worker *worker, struct job *job);

/* Whether a kernel is in the GPU's queues. */
bool launch_is_under_way(struct worker *worker);
