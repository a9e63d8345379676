/* SPDX-License-Identifier: MIT */
/* Queues of work, each with its thread. */
#pragma once

#include "softgpu/call.h"

struct context;

#define STREAM_PRIORITY_LEAST	 0
#define STREAM_PRIORITY_GREATEST (-5)

/*
 * A piece of work. run() is called once, on the stream's thread, without the lock, and
 * frees the op; alive is false after a fault, when nothing may be touched any more.
 */
struct op {
	struct op *next;
	struct delay delay;
	void (*run)(struct op *op, bool alive);
};

struct stream {
	struct stream *next;
	struct context *context;
	unsigned int n_refs;
	unsigned int flags;
	int priority;
	bool ending; /* destroyed: no handle any more, but work left */
	bool has_thread;
	pthread_cond_t work; /* something was queued, or it is ending */
	struct op *first;
	struct op **tail;
	uint64_t n_queued; /* ever */
	uint64_t n_done;
};

/* Returns: a stream with one reference and a handle, or NULL. */
struct stream *stream_new(struct context *context, unsigned int flags, int priority);
struct stream *stream_ref(struct stream *stream);
struct stream *stream_unref(struct stream *stream);

/*
 * The stream of a handle: the current context's legacy stream for 0.
 *
 * Returns: CUDA_SUCCESS, or CUDA_ERROR_INVALID_HANDLE.
 */
CUresult stream_find(CUstream handle, struct stream **ret);

/*
 * Queues an op, behind all work required by the rules of the legacy stream. The op
 * belongs to the stream whatever is returned.
 *
 * Returns: CUDA_SUCCESS or CUDA_ERROR_OUT_OF_MEMORY.
 */
CUresult stream_queue(struct stream *stream, struct op *op);

/* Queues and waits; runs the op right here where nothing comes before. */
CUresult stream_run(struct stream *stream, struct op *op);

bool stream_has_done(const struct stream *stream, uint64_t n);
void stream_wait(struct stream *stream, uint64_t n);

/* Makes all work queued from now on wait for the first n ops of another stream. */
CUresult stream_queue_wait(struct stream *stream, struct stream *other, uint64_t n);

/* Waits for all work queued in a context, or in all contexts (NULL). */
void streams_drain(const struct context *context);

/* Ends every stream of a context, the legacy one too. */
void streams_end_context(const struct context *context);
