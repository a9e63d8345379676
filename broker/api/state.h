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
#include "memory/slab.h"
#include "model/journal.h"
#include "model/registry.h"
#include "process/output.h"
#include "process/worker.h"
#include "memops/lease.h"

struct ahead;
struct deadline;
struct making;
struct op;
struct rescue;
struct run;

/* What has been freed lately, so that a failure through an old descriptor can name it. */
struct freed {
	struct token token;
	uint64_t id;
	char name[NAME_MAX_LENGTH + 1];
};

#define FREED_KEPT 1024

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

	struct worker mover;
	uint64_t restarts; /* workers that died; registry.lock */

	/* registry.lock */
	bool shutting_down;
	bool drained;			      /* by the thread that ends it */
	uint64_t n_ops;			      /* under way, and allocations being made */
	unsigned int n_releases[DEVICES_MAX]; /* memory on its way back to the driver */
	uint64_t n_released[DEVICES_MAX];     /* what has arrived there, ever */
	struct ahead *aheads;	    /* pieces of data read ahead, oldest first */
	struct making *parked;	    /* allocations that wait for one of those */
	pthread_cond_t idle;	    /* n_ops reached zero */
	struct deadline *deadlines; /* op/deadline.h */
	struct rescue *rescues;	    /* under way; counted in n_ops */
	struct run *dead_runs;	    /* ended, for the housekeeper to free */
	unsigned int n_runs;	    /* worker processes not freed yet */

	struct freed freed[FREED_KEPT]; /* a ring */
	unsigned int n_freed;

	pthread_t housekeeper;
	pthread_cond_t housekeeper_wake;
	bool housekeeper_runs, housekeeper_stop;
	bool mover_wanted;	   /* it died; registry.lock */
	int64_t mover_started_s;   /* the housekeeper's: not more than once a second */
	unsigned int n_unreleased; /* blocks that the driver would not take back */
};

/* NULL: it is too long ago. Under registry.lock. */
const struct freed *broker_find_freed(const struct broker *broker, struct token token);
