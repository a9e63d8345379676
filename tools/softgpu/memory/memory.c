/* SPDX-License-Identifier: MIT */
/*
 * cuMemAlloc and cuMemFree: pieces of the context's heap, zeroed, each a range of the
 * address space.
 *
 * Freeing waits for all work of the context, of all contexts for managed memory, as the
 * driver does, so nothing queued can touch what is gone; its physical memory goes back
 * at once.
 */
#include "memory.h"

#include "host.h"
#include "ledger.h"
#include "pool.h"
#include "softgpu/context.h"
#include "softgpu/managed/managed.h"
#include "softgpu/run/event.h"
#include "softgpu/run/print.h"
#include "softgpu/run/stream.h"
#include "space.h"

#include <string.h>

void memory_synchronized(void)
{
	prints_flush();
	pools_trim();
}

static void range_free(struct range *range)
{
	struct heap *heap = range->owner;
	const uint64_t address = range->start;

	space_remove(range);
	heap_free(heap, address);
	heap_trim(heap, 0);
}

void memory_end_context(const struct context *context)
{
	struct range *range;

	while ((range = space_of_context(context))) {
		if (range_is_host(range))
			host_free(range);
		else if (range->kind == RANGE_POOL)
			pool_free(range);
		else if (range->kind == RANGE_MANAGED)
			managed_free(range);
		else
			range_free(range);
	}
	events_end_context(context);
	pools_end_context(context);
}

CALL(cuMemGetInfo_v2, NEED_CONTEXT, (size_t * ret_free, size_t *ret_total),
     (ret_free, ret_total))
{
	const uint64_t used = ledger_used(context_current()->device);

	if (ret_free)
		*ret_free = options.memory - MIN(used, options.memory);
	if (ret_total)
		*ret_total = options.memory;
	return CUDA_SUCCESS;
}

CALL(cuMemAlloc_v2, NEED_CONTEXT, (CUdeviceptr * ret, size_t size), (ret, size))
{
	struct context *context = context_current();
	struct range range = {
		.size = size,
		.kind = RANGE_MEMORY,
		.device = context->device,
		.context = context,
		.owner = &context->heap,
	};

	if (!ret || !size)
		return CUDA_ERROR_INVALID_VALUE;
	if (heap_alloc(&context->heap, size, &range.start) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!space_add(&range)) {
		heap_free(&context->heap, range.start);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	/* A fresh block is zeros already, and a large piece always has one. */
	if (size < OPTIONS_GRANULARITY)
		memset((void *)(uintptr_t)range.start, 0, size);
	*ret = range.start;
	return CUDA_SUCCESS;
}

CALL(cuMemFree_v2, NEED_CONTEXT, (CUdeviceptr address), (address))
{
	struct range *range = space_find(address);

	if (!address)
		return CUDA_SUCCESS;
	if (!range || range->start != address || range->freeing)
		return CUDA_ERROR_INVALID_VALUE;
	if (range->kind != RANGE_MEMORY && range->kind != RANGE_POOL &&
	    range->kind != RANGE_MANAGED)
		return CUDA_ERROR_INVALID_VALUE;

	streams_drain(range->kind == RANGE_MANAGED ? NULL : range->context);
	range = space_find(address);
	if (!range || range->start != address)
		return CUDA_ERROR_INVALID_VALUE;
	if (range->kind == RANGE_POOL)
		pool_free(range);
	else if (range->kind == RANGE_MANAGED)
		managed_free(range);
	else
		range_free(range);
	return CUDA_SUCCESS;
}

CALL(cuMemGetAddressRange_v2, NEED_CONTEXT,
     (CUdeviceptr * ret_base, size_t *ret_size, CUdeviceptr address),
     (ret_base, ret_size, address))
{
	const struct range *range = space_find(address);

	if (!range || range->freeing)
		return CUDA_ERROR_NOT_FOUND;
	if (ret_base)
		*ret_base = range->start;
	if (ret_size)
		*ret_size = range->size;
	return CUDA_SUCCESS;
}
