/* SPDX-License-Identifier: MIT */
/*
 * The runs of a worker's process. worker_instance.c starts and ends them, worker_tell.c
 * tells them what requests need, worker.c asks. Functions want worker->lock. Private to
 * the three.
 */
#pragma once

#include "process/worker.h"

struct held;
struct telling;

/* One run of the process: what the link calls back with. */
struct run {
	struct worker *worker;
	struct link *link;
	uint32_t epoch;
	bool stopping;		   /* asked to end; under worker->lock, as is: */
	bool proved;		   /* it has answered */
	char reason[128];	   /* why it was ended, where it is known better here */
	int error;		   /* what that is for what was under way */
	struct telling *tellings;  /* MAP, MAP_HOST, STREAM_CREATE without an answer */
	uint64_t n_told;	   /* of those, ever */
	struct held *held;	   /* requests that wait for their answers, in order */
	struct wire_reply refusal; /* the last of those answers that was a failure */
	struct run *next;	   /* of the worker's, until it is freed */
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

/* The run that has a block mapped. NULL: no memory to note it for a guest. */
uint32_t *block_epoch(const struct worker *worker, struct block *block, bool guest);

/*
 * Tell the run of a block, a stream, an image, where it does not know the latter two yet.
 * *fd, the block's, is the link's when that succeeds.
 * Returns: 0; -ENOMEM, -EMFILE.
 */
int run_tell_block(struct run *run, const struct needed_block *needed, int *fd);
int run_tell_stream(struct run *run, struct stream *stream);
int run_tell_image(struct run *run, struct image *image);

/* What is about to go is no longer what a telling without an answer is about. */
void run_forget(struct run *run, const struct block *block, const struct stream *stream);

/*
 * Asks, behind what the run was told that the request needs.
 * Returns: as worker_ask(); -ENOMEM.
 */
int run_ask(struct run *run, const struct worker_needs *needs, struct ask *ask);
