/* SPDX-License-Identifier: MIT */
/* For checkpoint.c, which gives processes up and saves, and checkpoint_end.c. */
#pragma once

#include "base/workqueue.h"
#include "channel/request.h"
#include "model/allocation.h"
#include "process/checkpoint.h"
#include "process/processes.h"
#include "process/restore.h"

struct checkpoint {
	struct broker *broker;
	struct worker *worker;
	uint32_t epoch; /* of the process that ends */
	char reason[128];
	struct channel *channel; /* of that process; NULL: gone */
	int64_t deadline_ms;
	bool lingers; /* waits for the next process; registry.lock, like: */
	bool let_go;  /* saving is over */
	bool killed;  /* was killed */
	bool instance_ended;
	bool restored;
	struct completion *completion;
	/* Until the end of the process; registry.lock. */
	struct work *parked;
	struct until_end *waiting;
	struct checkpoint *prev,
		*next; /* of broker->processes->checkpoints; registry.lock */

	bool taking; /* notes what to save and what is lost; registry.lock, like: */
	struct worker_walk walk;
	struct loss loss;
	uint64_t size;	  /* bytes to save */
	struct task rest; /* of a process with many allocations */

	struct restore restore; /* the saved memory */
	uint64_t charged;	/* bytes of the host, for the file */
	int64_t saving_ms;	/* when saving began */
	unsigned int n_written; /* including failures */
	struct request request;
};

/*
 * Ends the checkpoint if the process has ended and all memory is restored. Called with
 * registry.lock held since the caller changed the state; releases the lock. The
 * checkpoint may be freed afterwards.
 */
void checkpoint_finish(struct checkpoint *checkpoint);

/*
 * A process keeps freed memory mapped until its exit, and gets no request to unmap.
 * Callers that find a device full wait for the exit. Under registry.lock.
 */
void checkpoint_hold_memory(struct broker *broker, struct owner *owner);

/* Saving is over: kills the process, now or after a while. Under registry.lock. */
void checkpoint_let_go(struct checkpoint *checkpoint);
