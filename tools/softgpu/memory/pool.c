/* SPDX-License-Identifier: MIT */
/*
 * Memory pools: a heap that keeps empty blocks until a synchronize finds more held than
 * the release threshold.
 *
 * cuMemAllocAsync takes a piece at once; the piece was free, so no queued work uses the
 * memory, and the stream's order is kept. cuMemFreeAsync queues the giving back; from
 * this call on the piece may not be named any more, though the memory is there until the
 * stream gets there. Pieces are not zeroed.
 *
 * Every device has a default pool for life. A destroyed pool goes with the last piece.
 * The attributes about reuse are kept and told; nothing is reused before the free has
 * run, whatever they say.
 */
#include "pool.h"

#include "softgpu/context.h"
#include "softgpu/run/stream.h"
#include "space.h"

struct pool {
	struct pool *next;
	struct heap heap; /* first: a range's owner is the heap */
	bool is_default;
	bool destroyed;
	uint64_t threshold;
	int reuse[3]; /* by attribute, from REUSE_FOLLOW_EVENT_DEPENDENCIES */
};

struct free_op {
	struct op op;
	uint64_t address;
};

static struct pool *pools; /* under the library's lock */

static struct pool *pool_new(int device)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->heap.device = device;
	pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
	pool->next = pools;
	pools = pool;
	return pool;
}

static struct pool *pool_default(int device)
{
	struct pool *pool = pools;

	while (pool && !(pool->is_default && pool->heap.device == device))
		pool = pool->next;
	if (!pool) {
		pool = pool_new(device);
		if (pool)
			pool->is_default = true;
	}
	return pool;
}

static struct pool *pool_find(CUmemoryPool handle)
{
	struct pool *pool = pools;

	while (pool && (handle != (CUmemoryPool)pool || pool->destroyed))
		pool = pool->next;
	return pool;
}

static struct pool *pool_of_heap(struct heap *heap)
{
	return container_of(heap, struct pool, heap);
}

CUmemoryPool pool_of_range(const struct range *range)
{
	return (CUmemoryPool)pool_of_heap(range->owner);
}

static void pool_end(struct pool *pool)
{
	struct pool **link = &pools;

	while (*link != pool)
		link = &(*link)->next;
	*link = pool->next;
	heap_trim(&pool->heap, 0);
	free(pool);
}

void pool_free(struct range *range)
{
	struct pool *pool = pool_of_heap(range->owner);
	const uint64_t address = range->start;

	space_remove(range);
	heap_free(&pool->heap, address);
	if (pool->destroyed && !pool->heap.used)
		pool_end(pool);
}

void pools_trim(void)
{
	for (struct pool *pool = pools; pool; pool = pool->next)
		heap_trim(&pool->heap, pool->threshold);
}

void pools_end_context(const struct context *context)
{
	for (struct pool *pool = pools; pool; pool = pool->next)
		if (pool->heap.device == context->device)
			heap_trim(&pool->heap, 0);
}

/* On a full device, spare memory of the pools is freed first. */
static int pool_take(struct pool *pool, size_t size, uint64_t *ret)
{
	if (heap_alloc(&pool->heap, size, ret) >= 0)
		return 0;
	for (struct pool *p = pools; p; p = p->next)
		heap_trim(&p->heap, 0);
	return heap_alloc(&pool->heap, size, ret);
}

static CUresult pool_alloc(struct pool *pool, CUdeviceptr *ret, size_t size,
			   CUstream handle)
{
	struct range range = { .size = size, .kind = RANGE_POOL };
	struct stream *stream;
	CUresult result = stream_find(handle, &stream);

	if (result)
		return result;
	if (!ret || !size)
		return CUDA_ERROR_INVALID_VALUE;
	if (!pool || pool_take(pool, size, &range.start) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range.device = pool->heap.device;
	range.context = context_of_device(range.device);
	range.owner = &pool->heap;
	if (!space_add(&range)) {
		heap_free(&pool->heap, range.start);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = range.start;
	return CUDA_SUCCESS;
}

static void free_run(struct op *op, bool alive)
{
	struct free_op *free_op = container_of(op, struct free_op, op);
	struct range *range;

	(void)alive;
	call_lock();
	range = space_find(free_op->address);
	if (range && range->start == free_op->address && range->freeing)
		pool_free(range);
	call_unlock();
	free(free_op);
}

CALL(cuMemAllocAsync, NEED_CONTEXT, (CUdeviceptr * ret, size_t size, CUstream stream),
     (ret, size, stream))
{
	return pool_alloc(pool_default(context_current()->device), ret, size, stream);
}

CALL(cuMemAllocFromPoolAsync, NEED_CONTEXT,
     (CUdeviceptr * ret, size_t size, CUmemoryPool handle, CUstream stream),
     (ret, size, handle, stream))
{
	struct pool *pool = pool_find(handle);

	return pool ? pool_alloc(pool, ret, size, stream) : CUDA_ERROR_INVALID_VALUE;
}

CALL(cuMemFreeAsync, NEED_CONTEXT, (CUdeviceptr address, CUstream handle),
     (address, handle))
{
	struct range *range = space_find(address);
	struct free_op *free_op;
	struct stream *stream;
	CUresult result = stream_find(handle, &stream);

	if (result)
		return result;
	if (!range || range->start != address || range->freeing)
		return CUDA_ERROR_INVALID_VALUE;
	if (range->kind != RANGE_POOL)
		return CUDA_ERROR_INVALID_VALUE;
	free_op = calloc(1, sizeof(*free_op));
	if (!free_op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	free_op->op.run = free_run;
	free_op->address = address;
	range->freeing = true;
	return stream_queue(stream, &free_op->op);
}

static CUresult device_pool(CUmemoryPool *ret, CUdevice device)
{
	struct pool *pool;

	if (device < 0 || device >= options.n_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	pool = pool_default(device);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = (CUmemoryPool)pool;
	return CUDA_SUCCESS;
}

CALL(cuDeviceGetDefaultMemPool, NEED_INIT, (CUmemoryPool * ret, CUdevice device),
     (ret, device))
{
	return device_pool(ret, device);
}

CALL(cuDeviceGetMemPool, NEED_INIT, (CUmemoryPool * ret, CUdevice device), (ret, device))
{
	return device_pool(ret, device);
}

CALL(cuMemPoolCreate, NEED_INIT, (CUmemoryPool * ret, const CUmemPoolProps *props),
     (ret, props))
{
	struct pool *pool;

	if (!ret || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (props->location.id < 0 || props->location.id >= options.n_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_ERROR_NOT_SUPPORTED;
	pool = pool_new(props->location.id);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = (CUmemoryPool)pool;
	return CUDA_SUCCESS;
}

CALL(cuMemPoolDestroy, NEED_INIT, (CUmemoryPool handle), (handle))
{
	struct pool *pool = pool_find(handle);

	if (!pool || pool->is_default)
		return CUDA_ERROR_INVALID_VALUE;
	pool->destroyed = true;
	if (!pool->heap.used)
		pool_end(pool);
	return CUDA_SUCCESS;
}

CALL(cuMemPoolTrimTo, NEED_INIT, (CUmemoryPool handle, size_t keep), (handle, keep))
{
	struct pool *pool = pool_find(handle);

	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	heap_trim(&pool->heap, keep);
	return CUDA_SUCCESS;
}

/* The 64-bit attributes; NULL for those about reuse and unknown ones. */
static uint64_t *pool_attribute(struct pool *pool, CUmemPool_attribute attribute)
{
	switch ((int)attribute) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		return &pool->threshold;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return &pool->heap.reserved;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return &pool->heap.reserved_high;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return &pool->heap.used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &pool->heap.used_high;
	default:
		return NULL;
	}
}

static int *pool_reuse(struct pool *pool, CUmemPool_attribute attribute)
{
	const unsigned int i =
		(unsigned int)attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;

	return i < ARRAY_SIZE(pool->reuse) ? &pool->reuse[i] : NULL;
}

CALL(cuMemPoolGetAttribute, NEED_INIT,
     (CUmemoryPool handle, CUmemPool_attribute attribute, void *ret),
     (handle, attribute, ret))
{
	struct pool *pool = pool_find(handle);

	if (!pool || !ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (pool_attribute(pool, attribute))
		*(uint64_t *)ret = *pool_attribute(pool, attribute);
	else if (pool_reuse(pool, attribute))
		*(int *)ret = *pool_reuse(pool, attribute);
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* A high watermark can only be reset to the current value. */
static CUresult pool_reset_high(struct pool *pool, CUmemPool_attribute attribute,
				uint64_t value)
{
	if (value)
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
		pool->heap.reserved_high = pool->heap.reserved;
	else
		pool->heap.used_high = pool->heap.used;
	return CUDA_SUCCESS;
}

CALL(cuMemPoolSetAttribute, NEED_INIT,
     (CUmemoryPool handle, CUmemPool_attribute attribute, void *value),
     (handle, attribute, value))
{
	struct pool *pool = pool_find(handle);

	if (!pool || !value)
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH ||
	    attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		return pool_reset_high(pool, attribute, *(uint64_t *)value);
	if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		pool->threshold = *(uint64_t *)value;
	else if (pool_reuse(pool, attribute))
		*pool_reuse(pool, attribute) = *(int *)value;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}
