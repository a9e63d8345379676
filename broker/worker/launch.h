/* SPDX-License-Identifier: MIT */
/*
 * Kernels: LAUNCH.
 *
 * Launches are put into the GPU's queues in the order received, by one thread at a time;
 * each stream that has some under way has one thread that waits for their ends and
 * answers them.
 */
#pragma once

#include "base/def.h"
#include "cuda/driver.h"

#include <gpumem/wire.h>

struct job;
struct worker;

/* Launches received and not in the GPU's queues yet. */
struct launch_queue {
	struct job *first; /* under the streams' lock, as all here */
	struct job **end;
	bool taken;			   /* some thread is putting them there */
	struct job *in_flight;		   /* in the GPU's queues, by id */
	CUevent *events[WIRE_DEVICES_MAX]; /* that no launch has */
	unsigned int n_events[WIRE_DEVICES_MAX];
	unsigned int events_capacity[WIRE_DEVICES_MAX];
};

/*
 * Takes one, in the order received. Returns: whether the caller has to go on with
 * launch_run(); else another thread does it.
 */
bool launch_receive(struct worker *worker, struct job *job);

/*
 * Puts what was received into the GPU's queues, hands out the waiting, waits for one
 * stream itself. job came from launch_receive(), or from pool_queue() to be waited for.
 */
void launch_run(struct worker *worker, struct job *job);
