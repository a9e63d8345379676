/* SPDX-License-Identifier: MIT */
/*
 * Primary contexts, at most one for each device, retained and released, and each thread's
 * stack of current contexts.
 *
 * struct context lives for the life of the process, so that a handle never dangles: a
 * context that nobody retains is dead, and calls under it answer
 * CUDA_ERROR_CONTEXT_IS_DESTROYED. The end of a context waits for all of the streams and
 * takes along streams, events, allocations and pools; mappings and handles of virtual
 * memory belong to the process and stay.
 *
 * Making a context costs no device memory here. On hardware a context takes some hundred
 * MiB.
 */
#include "context.h"

#include "softgpu/memory/memory.h"
#include "softgpu/run/module.h"
#include "softgpu/run/print.h"
#include "softgpu/run/stream.h"

#define STACK_DEPTH 16

static struct context contexts[OPTIONS_MAX_DEVICES];
static _Thread_local struct context *stack[STACK_DEPTH];
static _Thread_local int depth;

void contexts_init(void)
{
	for (int i = 0; i < options.n_devices; i++) {
		contexts[i].device = i;
		contexts[i].heap.device = i;
	}
}

struct context *context_current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

CUresult context_check(void)
{
	const struct context *context = context_current();

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	return context->n_retained ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

struct context *context_find(CUcontext handle)
{
	for (int i = 0; i < options.n_devices; i++)
		if (handle == context_handle(&contexts[i]))
			return &contexts[i];
	return NULL;
}

struct context *context_of_device(int device)
{
	return device >= 0 && device < options.n_devices ? &contexts[device] : NULL;
}

static CUresult context_begin(struct context *context)
{
	context->limits[CU_LIMIT_STACK_SIZE] = 1024;
	context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
	context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
	context->legacy = stream_new(context, 0, 0);
	return context->legacy ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void context_end(struct context *context)
{
	streams_drain(context);
	prints_flush();
	modules_end_context(context);
	memory_end_context(context);
	streams_end_context(context);
	context->legacy = NULL;
	for (int i = 0; i < options.n_devices; i++)
		context->peers[i] = contexts[i].peers[context->device] = false;
}

CALL(cuDevicePrimaryCtxRetain, NEED_INIT, (CUcontext * ret, CUdevice device),
     (ret, device))
{
	struct context *context = context_of_device(device);
	CUresult result;

	if (!context)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context->n_retained) {
		result = context_begin(context);
		if (result)
			return result;
	}
	context->n_retained++;
	*ret = context_handle(context);
	return CUDA_SUCCESS;
}

CALL(cuDevicePrimaryCtxRelease_v2, NEED_INIT, (CUdevice device), (device))
{
	struct context *context = context_of_device(device);

	if (!context)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!context->n_retained)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!--context->n_retained)
		context_end(context);
	return CUDA_SUCCESS;
}

CALL(cuDevicePrimaryCtxReset_v2, NEED_INIT, (CUdevice device), (device))
{
	struct context *context = context_of_device(device);

	if (!context)
		return CUDA_ERROR_INVALID_DEVICE;
	if (context->n_retained)
		context_end(context);
	context->n_retained = 0;
	return CUDA_SUCCESS;
}

CALL(cuDevicePrimaryCtxGetState, NEED_INIT,
     (CUdevice device, unsigned int *flags, int *active), (device, flags, active))
{
	const struct context *context = context_of_device(device);

	if (!context)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = 0;
	*active = context->n_retained != 0;
	return CUDA_SUCCESS;
}

/* NULL pops the current context off the stack. */
CALL(cuCtxSetCurrent, NEED_INIT, (CUcontext handle), (handle))
{
	struct context *context = context_find(handle);

	if (handle && !context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context && !context->n_retained)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (!context) {
		depth -= depth > 0;
		return CUDA_SUCCESS;
	}
	if (!depth)
		depth = 1;
	stack[depth - 1] = context;
	return CUDA_SUCCESS;
}

CALL(cuCtxGetCurrent, NEED_INIT, (CUcontext * ret), (ret))
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = context_handle(context_current());
	return CUDA_SUCCESS;
}

CALL(cuCtxPushCurrent_v2, NEED_INIT, (CUcontext handle), (handle))
{
	struct context *context = context_find(handle);

	if (!context || depth == STACK_DEPTH)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!context->n_retained)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	stack[depth++] = context;
	return CUDA_SUCCESS;
}

CALL(cuCtxPopCurrent_v2, NEED_INIT, (CUcontext * ret), (ret))
{
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	depth--;
	if (ret)
		*ret = context_handle(stack[depth]);
	return CUDA_SUCCESS;
}

CALL(cuCtxGetDevice, NEED_CONTEXT, (CUdevice * ret), (ret))
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = context_current()->device;
	return CUDA_SUCCESS;
}

CALL(cuCtxSynchronize, NEED_CONTEXT, (void), ())
{
	streams_drain(context_current());
	memory_synchronized();
	return call_poisoned();
}

CALL(cuCtxGetStreamPriorityRange, NEED_CONTEXT, (int *least, int *greatest),
     (least, greatest))
{
	if (least)
		*least = STREAM_PRIORITY_LEAST;
	if (greatest)
		*greatest = STREAM_PRIORITY_GREATEST;
	return CUDA_SUCCESS;
}

CALL(cuCtxEnablePeerAccess, NEED_CONTEXT, (CUcontext handle, unsigned int flags),
     (handle, flags))
{
	const struct context *peer = context_find(handle);
	struct context *context = context_current();

	if (!peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (peer == context)
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	if (!peer->n_retained)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (context->peers[peer->device])
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	context->peers[peer->device] = true;
	return CUDA_SUCCESS;
}

CALL(cuCtxDisablePeerAccess, NEED_CONTEXT, (CUcontext handle), (handle))
{
	const struct context *peer = context_find(handle);
	struct context *context = context_current();

	if (!peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!context->peers[peer->device])
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	context->peers[peer->device] = false;
	return CUDA_SUCCESS;
}
