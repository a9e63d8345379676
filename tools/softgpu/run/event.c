/* SPDX-License-Identifier: MIT */
/*
 * Events: a recorded event is a stream and the number of the op that recorded the event,
 * and so complete when the stream has done as many. A wait on another stream takes the
 * number at the time of the call; a later record changes nothing for earlier waits.
 *
 * The op only writes down the time.
 */
#include "event.h"

#include "print.h"
#include "softgpu/context.h"
#include "stream.h"

#include <time.h>

#define EVENT_FLAGS \
	(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

struct event {
	struct event *next; /* of the events that have a handle */
	const struct context *context;
	unsigned int n_refs;
	unsigned int flags;
	struct stream *stream; /* NULL: never recorded */
	uint64_t n;	       /* complete when the stream has done that many */
	int64_t time_ns;
};

struct record_op {
	struct op op;
	struct event *event;
	uint64_t n;
};

static struct event *events; /* under the library's lock */

static void event_unref(struct event *event)
{
	if (--event->n_refs)
		return;
	stream_unref(event->stream);
	free(event);
}

static CUresult event_find(CUevent handle, struct event **ret)
{
	struct event *event = events;

	while (event && handle != (CUevent)event)
		event = event->next;
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = event;
	return CUDA_SUCCESS;
}

static void event_end(struct event *event)
{
	struct event **link = &events;

	while (*link != event)
		link = &(*link)->next;
	*link = event->next;
	event_unref(event);
}

void events_end_context(const struct context *context)
{
	struct event *next;

	for (struct event *event = events; event; event = next) {
		next = event->next;
		if (event->context == context)
			event_end(event);
	}
}

static bool event_is_complete(const struct event *event)
{
	return !event->stream || stream_has_done(event->stream, event->n);
}

static void record_run(struct op *op, bool alive)
{
	struct record_op *record = container_of(op, struct record_op, op);
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	call_lock();
	if (alive && record->event->n == record->n)
		record->event->time_ns =
			(int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec;
	event_unref(record->event);
	call_unlock();
	free(record);
}

CALL(cuEventCreate, NEED_CONTEXT, (CUevent * ret, unsigned int flags), (ret, flags))
{
	struct event *event;

	if (!ret || flags & ~(unsigned int)EVENT_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	event = calloc(1, sizeof(*event));
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->context = context_current();
	event->n_refs = 1;
	event->flags = flags;
	event->next = events;
	events = event;
	*ret = (CUevent)event;
	return CUDA_SUCCESS;
}

CALL(cuEventDestroy_v2, NEED_CONTEXT, (CUevent handle), (handle))
{
	struct event *event;
	CUresult result = event_find(handle, &event);

	if (!result)
		event_end(event);
	return result;
}

/* The op counts itself: the recorded work is complete when the op is done. */
CALL(cuEventRecord, NEED_CONTEXT, (CUevent handle, CUstream on), (handle, on))
{
	struct record_op *record;
	struct stream *stream;
	struct event *event;
	CUresult result;

	result = event_find(handle, &event);
	if (!result)
		result = stream_find(on, &stream);
	if (result)
		return result;
	if (stream->context != event->context)
		return CUDA_ERROR_INVALID_HANDLE;
	record = calloc(1, sizeof(*record));
	if (!record)
		return CUDA_ERROR_OUT_OF_MEMORY;
	record->op.run = record_run;
	record->event = event;
	event->n_refs++;
	/* The op runs only when the lock is free, after n is set below. */
	result = stream_queue(stream, &record->op);
	if (result)
		return result;
	record->n = stream->n_queued;
	stream_ref(stream);
	stream_unref(event->stream);
	event->stream = stream;
	event->n = record->n;
	event->time_ns = 0;
	return CUDA_SUCCESS;
}

CALL(cuEventQuery, NEED_CONTEXT, (CUevent handle), (handle))
{
	struct event *event;
	CUresult result = event_find(handle, &event);

	if (result)
		return result;
	return event_is_complete(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CALL(cuEventSynchronize, NEED_CONTEXT, (CUevent handle), (handle))
{
	struct event *event;
	CUresult result = event_find(handle, &event);

	if (result)
		return result;
	if (event->stream)
		stream_wait(event->stream, event->n);
	prints_flush();
	return call_poisoned();
}

CALL(cuEventElapsedTime, NEED_CONTEXT, (float *ret, CUevent from, CUevent to),
     (ret, from, to))
{
	struct event *start, *end;
	CUresult result;

	result = event_find(from, &start);
	if (!result)
		result = event_find(to, &end);
	if (result)
		return result;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING || !start->stream ||
	    !end->stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!event_is_complete(start) || !event_is_complete(end))
		return CUDA_ERROR_NOT_READY;
	*ret = (float)((double)(end->time_ns - start->time_ns) / 1e6);
	return CUDA_SUCCESS;
}

CALL(cuStreamWaitEvent, NEED_CONTEXT, (CUstream on, CUevent handle, unsigned int flags),
     (on, handle, flags))
{
	struct stream *stream;
	struct event *event;
	CUresult result;

	result = stream_find(on, &stream);
	if (!result)
		result = event_find(handle, &event);
	if (result)
		return result;
	if (flags & ~1U)
		return CUDA_ERROR_INVALID_VALUE;
	if (!event->stream)
		return CUDA_SUCCESS;
	return stream_queue_wait(stream, event->stream, event->n);
}
