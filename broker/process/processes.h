/* SPDX-License-Identifier: MIT */
/* The worker processes of a broker, and the housekeeper thread. */
#pragma once

#include <pthread.h>

#include "base/spawner.h"
#include "process/broker.h"
#include "process/output.h"
#include "process/outside.h"
#include "process/worker.h"

struct checkpoint;
struct file_process;
struct instance;
struct orphan;
struct work;

struct processes {
	/* Set at the start. */
	char *driver_path;
	char *worker_program;
	unsigned int worker_idle_s;
	/* op_resume(): starts works that were parked during a restore. */
	void (*resume)(struct work *works);

	struct spawner spawner;
	struct outputs outputs;
	struct outside outside;
	struct worker mover;

	/* registry.lock */
	uint64_t restarts;		     /* workers that died */
	uint64_t mover_restarts;	     /* of them, movers */
	uint64_t n_revisions;		     /* changes of rights; worker->revision */
	struct checkpoint *checkpoints;	     /* under way; counted in registry.n_busy */
	struct file_process *file_processes; /* not freed yet */
	struct orphan *orphans;		     /* process/orphans.h */
	struct work *parked_for_orphans;
	struct instance *dead_instances; /* ended, to be freed by the housekeeper */
	unsigned int n_instances;	 /* worker processes not freed yet; atomic */

	pthread_t housekeeper;
	pthread_cond_t housekeeper_wake;
	bool housekeeper_runs, housekeeper_stop;
	bool housekeeper_wanted; /* since its last round began; registry.lock */
	bool mover_wanted;	 /* the mover died; registry.lock */
	bool (*view_lives)(void *userdata); /* broker_watch_view(); registry.lock */
	void *view;
	int64_t mover_started_ms; /* for the housekeeper: at most one start a second */
};

/* Wakes the housekeeper for another round. Under registry.lock. */
static inline void broker_wake_housekeeper(struct broker *broker)
{
	broker->processes->housekeeper_wanted = true;
	pthread_cond_signal(&broker->processes->housekeeper_wake);
}
