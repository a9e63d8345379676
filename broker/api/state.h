/* SPDX-License-Identifier: MIT */
/*
 * The broker put together.
 *
 * Locks, outermost first: a control's own; registry.lock; a worker's; a link's;
 * memory.lock; the journal's. No driver call and no callback is made under any of them,
 * and nobody waits under one: asking a worker only queues the question.
 */
#pragma once

#include <pthread.h>

#include "api/broker.h"
#include "base/workqueue.h"
#include "memops/lease.h"
#include "memory/reclaim.h"
#include "memory/slab.h"
#include "model/journal.h"
#include "model/registry.h"
#include "process/output.h"
#include "process/worker.h"

struct ahead;
struct deadline;
struct op;
struct rescue;
struct run;

struct broker {
	struct registry registry;
	struct memory memory;
	struct journal journal;
	struct crew crew;
	struct outputs outputs;
	struct leases leases;
	struct cuda_driver *driver;
	char *driver_path;
	char *worker_program;
	char *version;
	char *socket; /* where tickets are exchanged; NULL: nowhere */
	unsigned int worker_idle_s;
	uint32_t launch_timeout_ms; /* where a launch names none; 0: none */
	uint32_t give_back_ms;	    /* for a worker to give up what is taken from it */

	/* Starts works that waited for memory that was made anew: op_resume(). */
	void (*resume)(struct work *works);

	struct worker mover;
	uint64_t restarts; /* workers that died; registry.lock */

	/* registry.lock */
	bool drained; /* by the thread that ends it, as is: */
	bool left;    /* processes that can't be ended */
	struct reclaim reclaim;
	struct ahead *aheads;	    /* pieces of data read ahead, oldest first */
	struct deadline *deadlines; /* op/deadline.h */
	struct rescue *rescues;	    /* under way; counted in registry.n_busy */
	struct run *dead_runs;	    /* ended, for the housekeeper to free */
	unsigned int n_runs;	    /* worker processes not freed yet */

	pthread_t housekeeper;
	pthread_cond_t housekeeper_wake;
	bool housekeeper_runs, housekeeper_stop;
	bool housekeeper_wanted;  /* since it began its last round; registry.lock */
	bool mover_wanted;	  /* it died; registry.lock */
	int64_t mover_started_ms; /* the housekeeper's: not more than once a second */
};

/* Has the housekeeper do another round now. Under registry.lock. */
static inline void broker_wake_housekeeper(struct broker *broker)
{
	broker->housekeeper_wanted = true;
	pthread_cond_signal(&broker->housekeeper_wake);
}
