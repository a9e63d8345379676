/* SPDX-License-Identifier: MIT */
/*
 * User streams.
 *
 * A stream never has two of its requests under way, so their order is kept. The thread
 * that runs the first request takes the stream. Later requests wait in a list, and the
 * thread continues with the next request when one is finished. A CUDA stream keeps the
 * same order, but this way each reply has the error of its own request.
 *
 * Kernels use the CUDA stream's queue: any number of them are in the queue at the same
 * time (worker/launch.h), and no other request runs beside them.
 */
#include "worker/stream.h"

#include <errno.h>

#include "base/clock.h"
#include "worker/pool.h"
#include "worker/worker.h"

struct stream {
	CUstream handle;
	unsigned int device;
	bool taken;
	struct job *first; /* jobs that wait for the stream */
	struct job **end;
	struct job *launches; /* in the GPU's queue, oldest first */
	struct job **launches_end;
};

static int stream_insert(struct worker *worker, uint32_t id, struct stream *stream)
{
	int r = -EEXIST;

	pthread_mutex_lock(&worker->streams.lock);
	if (!worker->streams.streams[id]) {
		worker->streams.streams[id] = stream;
		r = 0;
	}
	pthread_mutex_unlock(&worker->streams.lock);
	return r;
}

int stream_create(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	_cleanup_free_ struct stream *stream = NULL;
	CUstream handle;
	int r;

	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return -ENOMEM;
	r = CUDA(worker->driver, failure, cuStreamCreateWithPriority, &handle,
		 CU_STREAM_NON_BLOCKING, job->request.priority);
	if (r < 0)
		return r;
	stream->handle = handle;
	stream->device = job->request.device;
	stream->end = &stream->first;
	stream->launches_end = &stream->launches;
	r = stream_insert(worker, job->request.stream, stream);
	if (r < 0) {
		CUDA(worker->driver, NULL, cuStreamDestroy_v2, handle);
		return r;
	}
	take_ptr(stream);
	return 0;
}

/* Removes an idle stream from the table. */
static int stream_remove(struct worker *worker, const struct wire_request *request,
			 struct stream **ret_stream)
{
	struct stream **place = &worker->streams.streams[request->stream];
	int r = 0;

	pthread_mutex_lock(&worker->streams.lock);
	if (!*place || (*place)->device != request->device)
		r = -EINVAL;
	else if ((*place)->taken || (*place)->launches)
		r = -EBUSY;
	else
		*ret_stream = take_ptr(*place);
	pthread_mutex_unlock(&worker->streams.lock);
	return r;
}

int stream_destroy(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	_cleanup_free_ struct stream *stream = NULL;
	int r;

	r = stream_remove(worker, &job->request, &stream);
	if (r < 0)
		return r;
	return CUDA(worker->driver, failure, cuStreamDestroy_v2, stream->handle);
}

static int stream_take_locked(struct stream *stream, struct job *job)
{
	if (!stream || stream->device != job->request.device)
		return -EINVAL;
	job->stream = stream->handle;
	if (!stream->taken) {
		stream->taken = true;
		return 0;
	}
	job->next = NULL;
	*stream->end = job;
	stream->end = &job->next;
	return -EINPROGRESS;
}

int stream_take(struct stream_table *table, struct job *job)
{
	int r;

	pthread_mutex_lock(&table->lock);
	r = stream_take_locked(table->streams[job->request.stream], job);
	pthread_mutex_unlock(&table->lock);
	return r;
}

static struct job *stream_give_locked(struct stream *stream)
{
	struct job *next = stream->first;

	if (!next) {
		stream->taken = false;
		return NULL;
	}
	stream->first = next->next;
	if (!stream->first)
		stream->end = &stream->first;
	return next;
}

struct job *stream_give(struct stream_table *table, uint32_t id)
{
	struct job *next;

	pthread_mutex_lock(&table->lock);
	next = stream_give_locked(table->streams[id]);
	pthread_mutex_unlock(&table->lock);
	return next;
}

/* With the turn in hand the thread polls, to pass the turn on in time. */
static void stream_poll(struct worker *worker, CUstream stream)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);
	struct cuda_failure failure;

	do {
		failure = (struct cuda_failure)CUDA_FAILURE_NONE;
		if (CUDA(worker->driver, &failure, cuStreamQuery, stream) == 0 ||
		    failure.result != CUDA_ERROR_NOT_READY)
			return;
		pool_wait(worker, clock_ns(CLOCK_MONOTONIC) - begin);
	} while (pool_has_turn());
}

int stream_sync(struct worker *worker, CUstream stream, int r,
		struct cuda_failure *failure)
{
	struct cuda_failure late = CUDA_FAILURE_NONE;
	int waited;

	if (pool_has_turn())
		stream_poll(worker, stream);
	/* A failed wait tells nothing about the state of the queue. */
	for (int tries = 0; tries < 2; tries++) {
		waited = CUDA(worker->driver, &late, cuStreamSynchronize, stream);
		if (waited == 0 || cuda_result_is_sticky(late.result))
			break;
	}
	if (waited < 0 && !cuda_result_is_sticky(late.result))
		worker_die("can't wait for its GPU (%s)", cuda_result_name(late.result));
	if (r < 0 || waited == 0)
		return r;
	*failure = late;
	return waited;
}

int stream_wait(struct worker *worker, struct job *job, int r,
		struct cuda_failure *failure)
{
	return stream_sync(worker, job->stream, r, failure);
}

int stream_join(struct stream_table *table, struct job *job)
{
	const struct stream *stream;
	int r = -EINVAL;

	pthread_mutex_lock(&table->lock);
	stream = table->streams[job->request.stream];
	/* All earlier requests have been answered, so no job has taken the stream. */
	if (stream && stream->device == job->request.device) {
		job->stream = stream->handle;
		r = 0;
	}
	pthread_mutex_unlock(&table->lock);
	return r;
}

bool stream_add_launch(struct stream_table *table, struct job *job)
{
	struct stream *stream = table->streams[job->request.stream];
	bool first = !stream->launches;

	job->later = NULL;
	*stream->launches_end = job;
	stream->launches_end = &job->later;
	return first;
}

struct job *stream_end_launch(struct stream_table *table, struct job *job)
{
	struct stream *stream = table->streams[job->request.stream];

	stream->launches = job->later;
	if (!stream->launches)
		stream->launches_end = &stream->launches;
	return stream->launches;
}
