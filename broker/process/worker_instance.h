/* SPDX-License-Identifier: MIT */
/*
 * The runs of a worker's process, as worker.c and run.c share them: run.c starts and ends
 * them, worker.c asks. Functions want worker->lock. Private to the two.
 */
#pragma once

#include "process/worker.h"

/* One run of the process: what the link calls back with. */
struct run {
	struct worker *worker;
	struct link *link;
	uint32_t epoch;
	bool stopping;	  /* asked to end; under worker->lock, as is: */
	bool proved;	  /* it has answered */
	char reason[128]; /* why it was ended, where it is known better here */
	int error;	  /* what that is for what was under way */
	struct run *next_dead;
};

/* Why it ends: the first reason is the cause. */
void run_note_reason(struct run *run, const char *reason, int error);

/*
 * Starts the next run. Returns: 0; -ESHUTDOWN when it is to run no more; -EHOSTDOWN when
 * it has failed too often; -ENOMEM, -EMFILE, -EAGAIN.
 */
int worker_start(struct worker *worker);

/* Whether its process runs, or is being started. */
bool worker_is_up(const struct worker *worker);
