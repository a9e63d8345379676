/* SPDX-License-Identifier: MIT */
/*
 * Streams: a queue of ops and a thread that runs them in order.
 *
 * A stream counts the ops queued and done, so "all work up to here" is a number. A wait
 * for this work, an event, or an order between streams is a comparison of numbers. A
 * single condition variable tells everybody about each op done.
 *
 * The legacy stream (handle 0) is a stream like the others, with an order kept by ops
 * that wait: work on the legacy stream waits for all blocking streams of the context, and
 * their later work waits for the legacy stream. Waits only point at work queued before,
 * so there is no circle.
 *
 * A destroyed stream has no handle any more; the thread finishes the queue, drops the
 * last reference and ends. Priorities are kept and told, and make nothing faster.
 */
#include "stream.h"

#include "softgpu/context.h"
#include "softgpu/memory/memory.h"

#include <signal.h>

struct wait_op {
	struct op op;
	struct stream *stream;
	uint64_t n;
};

struct host_op {
	struct op op;
	CUhostFn function;
	void *data;
};

static struct stream *streams; /* under the library's lock */
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER;

struct stream *stream_ref(struct stream *stream)
{
	stream->n_refs++;
	return stream;
}

struct stream *stream_unref(struct stream *stream)
{
	if (stream && !--stream->n_refs) {
		pthread_cond_destroy(&stream->work);
		free(stream);
	}
	return NULL;
}

struct stream *stream_new(struct context *context, unsigned int flags, int priority)
{
	struct stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->context = context;
	stream->n_refs = 1;
	stream->flags = flags;
	stream->priority =
		MAX(STREAM_PRIORITY_GREATEST, MIN(STREAM_PRIORITY_LEAST, priority));
	stream->tail = &stream->first;
	pthread_cond_init(&stream->work, NULL);
	stream->next = streams;
	streams = stream;
	return stream;
}

static void stream_forget(struct stream *stream)
{
	struct stream **link = &streams;

	while (*link != stream)
		link = &(*link)->next;
	*link = stream->next;
	stream_unref(stream);
}

/* Takes the handle away; a thread finishes its queue and then forgets the stream. */
static void stream_end(struct stream *stream)
{
	stream->ending = true;
	if (stream->has_thread)
		pthread_cond_signal(&stream->work);
	else
		stream_forget(stream);
}

CUresult stream_find(CUstream handle, struct stream **ret)
{
	struct stream *stream = streams;

	if (!handle || handle == CU_STREAM_LEGACY) {
		*ret = context_current()->legacy;
		return CUDA_SUCCESS;
	}
	while (stream && handle != (CUstream)stream)
		stream = stream->next;
	if (!stream || stream->ending)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = stream;
	return CUDA_SUCCESS;
}

static void op_run(struct op *op)
{
	bool alive;

	if (op->delay.ns)
		call_sleep(op->delay);
	call_lock();
	alive = !call_poisoned();
	call_unlock();
	op->run(op, alive);
}

static void *stream_thread(void *arg)
{
	struct stream *stream = arg;

	call_lock();
	for (;;) {
		struct op *op = stream->first;

		if (!op && stream->ending)
			break;
		if (!op) {
			call_wait(&stream->work);
			continue;
		}
		stream->first = op->next;
		if (!stream->first)
			stream->tail = &stream->first;
		call_unlock();
		op_run(op);
		call_lock();
		stream->n_done++;
		pthread_cond_broadcast(&progress);
	}
	stream_forget(stream);
	call_unlock();
	return NULL;
}

/* Started with the first op. Signals are the program's own threads' to take. */
static CUresult stream_start(struct stream *stream)
{
	sigset_t all, before;
	pthread_t thread;
	int r;

	if (stream->has_thread)
		return CUDA_SUCCESS;
	sigfillset(&all);
	sigdelset(&all, SIGBUS); /* of an access of the thread's own */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&thread, NULL, stream_thread, stream);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_detach(thread);
	stream->has_thread = true;
	return CUDA_SUCCESS;
}

/* An op that can't be queued is only freed. */
static CUresult op_refuse(struct op *op, CUresult result)
{
	call_unlock();
	op->run(op, false);
	call_lock();
	return result;
}

static CUresult stream_push(struct stream *stream, struct op *op)
{
	CUresult result = stream_start(stream);

	if (result)
		return op_refuse(op, result);
	op->next = NULL;
	*stream->tail = op;
	stream->tail = &op->next;
	stream->n_queued++;
	pthread_cond_signal(&stream->work);
	return CUDA_SUCCESS;
}

bool stream_has_done(const struct stream *stream, uint64_t n)
{
	return stream->n_done >= n;
}

void stream_wait(struct stream *stream, uint64_t n)
{
	stream_ref(stream);
	while (!stream_has_done(stream, n))
		call_wait(&progress);
	stream_unref(stream);
}

static void wait_run(struct op *op, bool alive)
{
	struct wait_op *wait = container_of(op, struct wait_op, op);

	call_lock();
	if (alive)
		stream_wait(wait->stream, wait->n);
	stream_unref(wait->stream);
	call_unlock();
	free(wait);
}

CUresult stream_queue_wait(struct stream *stream, struct stream *other, uint64_t n)
{
	struct wait_op *wait;

	if (stream == other || stream_has_done(other, n))
		return CUDA_SUCCESS;
	wait = calloc(1, sizeof(*wait));
	if (!wait)
		return CUDA_ERROR_OUT_OF_MEMORY;
	wait->op.run = wait_run;
	wait->stream = stream_ref(other);
	wait->n = n;
	return stream_push(stream, &wait->op);
}

static bool stream_is_blocking(const struct stream *stream)
{
	return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/* The order kept by the legacy stream, on either side. */
static CUresult stream_queue_legacy(struct stream *stream)
{
	struct stream *legacy = stream->context->legacy;
	CUresult result = CUDA_SUCCESS;

	if (!stream_is_blocking(stream))
		return CUDA_SUCCESS;
	if (stream != legacy)
		return stream_queue_wait(stream, legacy, legacy->n_queued);
	for (struct stream *s = streams; s && !result; s = s->next)
		if (s->context == stream->context && stream_is_blocking(s))
			result = stream_queue_wait(stream, s, s->n_queued);
	return result;
}

CUresult stream_queue(struct stream *stream, struct op *op)
{
	CUresult result = stream_queue_legacy(stream);

	op->delay = call_take_delay();
	return result ? op_refuse(op, result) : stream_push(stream, op);
}

/* Whether work on this stream would have nothing to wait for. */
static bool stream_is_idle(const struct stream *stream)
{
	if (!stream_has_done(stream, stream->n_queued))
		return false;
	if (!stream_is_blocking(stream))
		return true;
	for (const struct stream *s = streams; s; s = s->next)
		if (s->context == stream->context && stream_is_blocking(s) &&
		    !stream_has_done(s, s->n_queued))
			return false;
	return true;
}

/* Counted as queued and done, so that drains and orders know of the op. */
static void stream_run_here(struct stream *stream, struct op *op)
{
	stream_ref(stream);
	stream->n_queued++;
	op->delay = call_take_delay();
	call_unlock();
	op_run(op);
	call_lock();
	stream->n_done++;
	pthread_cond_broadcast(&progress);
	stream_unref(stream);
}

CUresult stream_run(struct stream *stream, struct op *op)
{
	CUresult result;

	if (stream_is_idle(stream)) {
		stream_run_here(stream, op);
		return call_poisoned();
	}
	result = stream_queue(stream, op);
	if (result)
		return result;
	stream_wait(stream, stream->n_queued);
	return call_poisoned();
}

/* The first stream that has work left. */
static struct stream *streams_busy(const struct context *context)
{
	for (struct stream *s = streams; s; s = s->next)
		if ((!context || s->context == context) &&
		    !stream_has_done(s, s->n_queued))
			return s;
	return NULL;
}

void streams_drain(const struct context *context)
{
	struct stream *stream;

	while ((stream = streams_busy(context)))
		stream_wait(stream, stream->n_queued);
}

void streams_end_context(const struct context *context)
{
	struct stream *next;

	for (struct stream *s = streams; s; s = next) {
		next = s->next;
		if (s->context == context && !s->ending)
			stream_end(s);
	}
}

static void host_run(struct op *op, bool alive)
{
	struct host_op *host = container_of(op, struct host_op, op);

	if (alive)
		host->function(host->data);
	free(host);
}

static CUresult stream_create(CUstream *ret, unsigned int flags, int priority)
{
	struct stream *stream;

	if (!ret || flags & ~(unsigned int)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	stream = stream_new(context_current(), flags, priority);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = (CUstream)stream;
	return CUDA_SUCCESS;
}

CALL(cuStreamCreate, NEED_CONTEXT, (CUstream * ret, unsigned int flags), (ret, flags))
{
	return stream_create(ret, flags, STREAM_PRIORITY_LEAST);
}

CALL(cuStreamCreateWithPriority, NEED_CONTEXT,
     (CUstream * ret, unsigned int flags, int priority), (ret, flags, priority))
{
	return stream_create(ret, flags, priority);
}

CALL(cuStreamDestroy_v2, NEED_CONTEXT, (CUstream handle), (handle))
{
	struct stream *stream;
	CUresult result = stream_find(handle, &stream);

	if (result)
		return result;
	if (stream == stream->context->legacy)
		return CUDA_ERROR_INVALID_HANDLE;
	stream_end(stream);
	return CUDA_SUCCESS;
}

CALL(cuStreamSynchronize, NEED_CONTEXT, (CUstream handle), (handle))
{
	struct stream *stream;
	CUresult result = stream_find(handle, &stream);

	if (result)
		return result;
	if (stream == stream->context->legacy)
		result = stream_queue_legacy(stream);
	if (result)
		return result;
	stream_wait(stream, stream->n_queued);
	memory_synchronized();
	return call_poisoned();
}

CALL(cuStreamQuery, NEED_CONTEXT, (CUstream handle), (handle))
{
	struct stream *stream;
	CUresult result = stream_find(handle, &stream);

	if (result)
		return result;
	if (stream == stream->context->legacy)
		return stream_is_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
	return stream_has_done(stream, stream->n_queued) ? CUDA_SUCCESS
							 : CUDA_ERROR_NOT_READY;
}

CALL(cuStreamGetPriority, NEED_CONTEXT, (CUstream handle, int *ret), (handle, ret))
{
	struct stream *stream;
	CUresult result = stream_find(handle, &stream);

	if (result)
		return result;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = stream->priority;
	return CUDA_SUCCESS;
}

CALL(cuLaunchHostFunc, NEED_CONTEXT, (CUstream handle, CUhostFn function, void *data),
     (handle, function, data))
{
	struct stream *stream;
	struct host_op *host;
	CUresult result = stream_find(handle, &stream);

	if (result)
		return result;
	if (!function)
		return CUDA_ERROR_INVALID_VALUE;
	host = calloc(1, sizeof(*host));
	if (!host)
		return CUDA_ERROR_OUT_OF_MEMORY;
	host->op.run = host_run;
	host->function = function;
	host->data = data;
	return stream_queue(stream, &host->op);
}
