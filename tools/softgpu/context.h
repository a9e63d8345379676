/* SPDX-License-Identifier: MIT */
/* Devices' primary contexts, and the current context of each thread. */
#pragma once

#include "call.h"
#include "options.h"
#include "softgpu/memory/heap.h"

struct stream;

#define CONTEXT_N_LIMITS 3 /* of the stack, of printf, of malloc */

struct context {
	int device;
	unsigned int n_retained; /* 0: not alive */
	struct heap heap;	 /* of cuMemAlloc */
	struct stream *legacy;	 /* stream 0, made with the context */
	bool peers[OPTIONS_MAX_DEVICES];
	size_t limits[CONTEXT_N_LIMITS]; /* by CUlimit */
};

/* After cuInit; the contexts are there for life and are alive or not. */
void contexts_init(void);

/* Whether the thread has a current context that is alive. */
CUresult context_check(void);

/* The thread's current context: never NULL in a call that has NEED_CONTEXT. */
struct context *context_current(void);

/* The context of a handle, or NULL for a wrong handle. */
struct context *context_find(CUcontext handle);

struct context *context_of_device(int device);

static inline CUcontext context_handle(struct context *context)
{
	return (CUcontext)context;
}
