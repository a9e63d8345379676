/* SPDX-License-Identifier: MIT */
/* The worker processes of a broker and the thread that looks after them. */
#pragma once

#include <pthread.h>

#include "process/broker.h"
#include "process/output.h"
#include "process/worker.h"

struct rescue;
struct run;

struct processes {
	/* Set at the start. */
	char *driver_path;
	char *worker_program;
	unsigned int worker_idle_s;
	/* Starts works that waited for memory that was made anew: op_resume(). */
	void (*resume)(struct work *works);

	struct outputs outputs;
	struct worker mover;

	/* registry.lock */
	uint64_t restarts;	/* workers that died */
	struct rescue *rescues; /* under way; counted in registry.n_busy */
	struct run *dead_runs;	/* ended, for the housekeeper to free */
	unsigned int n_runs;	/* worker processes not freed yet; atomic */

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
	broker->processes->housekeeper_wanted = true;
	pthread_cond_signal(&broker->processes->housekeeper_wake);
}
