/* SPDX-License-Identifier: MIT */
/* User streams: a CUstream each, and the requests that wait for the stream. */
#pragma once

#include <pthread.h>

#include "base/def.h"
#include "cuda/driver.h"

#include <gpumem/wire.h>

struct job;
struct stream;
struct worker;

/* Index: the broker's stream id. */
struct stream_table {
	pthread_mutex_t lock; /* guards the table and its streams; a leaf */
	struct stream *streams[WIRE_STREAMS_MAX];
};

/*
 * STREAM_CREATE and STREAM_DESTROY. The latter returns -EBUSY while a job has the stream.
 */
int stream_create(struct worker *worker, struct job *job, struct cuda_failure *failure);
int stream_destroy(struct worker *worker, struct job *job, struct cuda_failure *failure);

/*
 * Takes the stream for a job and sets job->stream; or queues the job behind earlier jobs
 * of the stream.
 *
 * Returns: 0 when the job can run; -EINPROGRESS when the job waits; -EINVAL when its
 * device has no such stream.
 */
int stream_take(struct stream_table *table, struct job *job);

/* Gives a stream back. Returns: the next job, which now has the stream; NULL. */
struct job *stream_give(struct stream_table *table, uint32_t id);

/*
 * Waits for all work on the job's stream, even after a failure r to queue more: an answer
 * means that no work of the request is under way. Ends the process when the wait fails.
 *
 * Returns: r if negative; else the result of the wait.
 */
int stream_wait(struct worker *worker, struct job *job, int r,
		struct cuda_failure *failure);
int stream_sync(struct worker *worker, CUstream stream, int r,
		struct cuda_failure *failure);

/*
 * Sets the stream of a LAUNCH.
 * Returns: 0; -EINVAL when there is no such stream.
 */
int stream_join(struct stream_table *table, struct job *job);

/*
 * Notes a LAUNCH in the GPU's queue. Under the table's lock.
 * Returns: true when no thread waits for the stream's launches yet; the caller then
 * provides a thread.
 */
bool stream_add_launch(struct stream_table *table, struct job *job);

/*
 * Removes the oldest LAUNCH of a stream, which has ended. Under the table's lock.
 * Returns: the next launch; NULL: no thread waits for the stream from now on.
 */
struct job *stream_end_launch(struct stream_table *table, struct job *job);
