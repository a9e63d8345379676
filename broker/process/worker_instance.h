/* SPDX-License-Identifier: MIT */
/*
 * An instance is one process of a worker. worker_instance.c starts and ends instances,
 * worker_tell.c announces objects to them, worker.c sends requests. All functions need
 * worker->lock. Private to these three files.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <gpumem/wire.h>

#include "base/workqueue.h"

struct request;
struct block;
struct held;
struct image;
struct needed_block;
struct stream;
struct telling;
struct worker_needs;

/* A process of a worker: userdata of its channel. */
struct instance {
	struct worker *worker;
	struct channel *channel;
	uint32_t epoch;
	uint32_t record;  /* of the process; 0: none */
	bool stopping;	  /* was asked to end; under worker->lock, like the next: */
	bool proved;	  /* has sent a reply */
	bool wanted;	  /* its owner asked for the end */
	char reason[128]; /* why the broker ended it; empty: unknown */
	int error;	  /* errno for requests in flight */
	struct telling *tellings;  /* MAP, MAP_HOST, STREAM_CREATE without an answer */
	uint64_t n_told;	   /* count of all announcements ever made */
	struct held *held;	   /* requests held back until the replies, in order */
	struct wire_reply refusal; /* the last refused announcement */
	struct instance *next;	   /* in worker->instances, until freed */
	struct instance *next_dead;
	struct task burial; /* once ended: in the lane of its user */
};

/*
 * Starts the next process. Returns: 0; -ESHUTDOWN when the worker is closed; -EHOSTDOWN
 * when it has failed too often; -EBUSY while too many have ended and are not closed yet;
 * -ENOMEM, -EMFILE, -EAGAIN.
 */
int worker_start(struct worker *worker);

/* Whether the process runs or is being started. */
bool worker_is_up(const struct worker *worker);

/*
 * The epoch of the process that has a block mapped. NULL: no memory for a guest's entry.
 */
uint32_t *block_epoch(struct worker *worker, struct block *block, bool guest);

/*
 * Announce a block, a stream or an image to the process; the latter two only if unknown
 * there. On success the block's *fd belongs to the channel. Returns: 0; -ENOMEM, -EMFILE.
 */
int instance_tell_block(struct instance *instance, const struct needed_block *needed,
			int *fd);
int instance_tell_stream(struct instance *instance, struct stream *stream);
int instance_tell_image(struct instance *instance, struct image *image);

/*
 * Removes a block or stream that is about to be freed from unanswered announcements to
 * all processes of the worker. Under worker->lock.
 */
void worker_forget(const struct worker *worker, const struct block *block,
		   const struct stream *stream);

/* Sends a request after the announcements it needs. Returns: as worker_send(); -ENOMEM.
 */
int instance_send(struct instance *instance, const struct worker_needs *needs,
		  struct request *request);
