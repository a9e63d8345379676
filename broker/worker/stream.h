/* SPDX-License-Identifier: MIT */
/* User streams: a CUstream each, and the requests that wait for their turn on it. */
#pragma once

#include <pthread.h>

#include "base/def.h"
#include "cuda/driver.h"

#include <gpumem/wire.h>

struct job;
struct stream;
struct worker;

/* By the broker's ids. */
struct stream_table {
	pthread_mutex_t lock; /* guards the table and what it points to; a leaf */
	struct stream *streams[WIRE_STREAMS_MAX];
};

/* STREAM_CREATE; STREAM_DESTROY, which gives -EBUSY while a job has the stream. */
int stream_create(struct worker *worker, struct job *job, struct cuda_failure *failure);
int stream_destroy(struct worker *worker, struct job *job, struct cuda_failure *failure);

/*
 * Takes the stream for a job, whose stream is then set, or has the job wait there for
 * those before it.
 *
 * Returns: 0 where the job can run; -EINPROGRESS where it waits; -EINVAL where there is
 * no such stream on its device.
 */
int stream_take(struct stream_table *table, struct job *job);

/* Gives a stream back. Returns: the job whose turn it is now, or NULL. */
struct job *stream_give(struct stream_table *table, uint32_t id);

/*
 * Waits for all that was queued on the job's stream, also after a failure r to queue
 * more: an answer says that nothing of it is under way any more. Ends the process where
 * it can't wait.
 *
 * Returns: r where that is negative; what the waiting returned.
 */
int stream_wait(struct worker *worker, struct job *job, int r,
		struct cuda_failure *failure);

/*
 * Sets the stream of a LAUNCH.
 * Returns: 0; -EINVAL where there is none such.
 */
int stream_join(struct stream_table *table, struct job *job);

/*
 * Notes a LAUNCH in the GPU's queue. With the table's lock held.
 * Returns: whether nobody waits for the stream's launches yet: the caller sees to it.
 */
bool stream_add_launch(struct stream_table *table, struct job *job);

/*
 * The oldest LAUNCH of its stream has ended. With the table's lock held.
 * Returns: the next one; NULL, and nobody waits for the stream from now on.
 */
struct job *stream_end_launch(struct stream_table *table, struct job *job);
