/* SPDX-License-Identifier: MIT */
/*
 * Copies and fills, in all directions, on a stream or at once.
 *
 * With unified addressing the direction is in the addresses: a call only says which of
 * the two sides must be the driver's (device memory, or host memory known to the driver);
 * the other may also be pageable memory, which the driver can't check. A call without a
 * stream runs on the legacy stream. A call with a stream returns when the copy is queued;
 * but pageable memory is read before the call returns (small copies out of a staged
 * duplicate) and written before the call returns, as CUDA promises.
 *
 * A copy moves no pages of managed memory; a fill is the device's work, like a kernel.
 */
#include "softgpu/context.h"
#include "softgpu/managed/managed.h"
#include "softgpu/run/print.h"
#include "softgpu/run/stream.h"
#include "space.h"
#include "unordered.h"

#include <string.h>

#define STAGED_MAX ((size_t)64 << 10)

enum side {
	SIDE_DRIVER, /* must be memory that the driver knows */
	SIDE_ANY,    /* may be pageable */
};

enum when {
	AT_ONCE,
	QUEUED,
};

struct copy_op {
	struct op op;
	const struct stream *managed_on; /* the stream, where a side is managed memory */
	uint64_t to;
	uint64_t from;
	size_t size;
	unsigned char staged[];
};

struct fill {
	uint64_t to;
	uint64_t value;
	size_t unit;  /* bytes of an element: 1, 2 or 4 */
	size_t width; /* elements */
	size_t height;
	size_t pitch; /* bytes */
};

struct fill_op {
	struct op op;
	const struct stream *managed_on;
	struct fill fill;
};

static void copy_run(struct op *op, bool alive)
{
	struct copy_op *copy = container_of(op, struct copy_op, op);
	void *from = copy->from ? (void *)(uintptr_t)copy->from : copy->staged;

	if (alive && copy->managed_on) {
		managed_copied(copy->managed_on, copy->from, copy->size, false);
		managed_copied(copy->managed_on, copy->to, copy->size, true);
	}
	unordered_begin();
	if (alive)
		memmove((void *)(uintptr_t)copy->to, from, copy->size);
	unordered_end();
	free(copy);
}

static struct copy_op *copy_new(uint64_t to, uint64_t from, size_t size, bool staged)
{
	struct copy_op *copy = malloc(sizeof(*copy) + (staged ? size : 0));

	if (!copy)
		return NULL;
	copy->op = (struct op){ .run = copy_run };
	copy->managed_on = NULL;
	copy->to = to;
	copy->from = staged ? 0 : from;
	copy->size = size;
	if (staged)
		memcpy(copy->staged, (void *)(uintptr_t)from, size);
	return copy;
}

static CUresult side_check(uint64_t address, size_t size, enum side side,
			   unsigned int access, bool *ret_pageable)
{
	const enum span span = space_span(address, size, access);

	*ret_pageable = span == SPAN_OUTSIDE;
	if (span == SPAN_BROKEN || (span == SPAN_OUTSIDE && side == SIDE_DRIVER))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* A wait for a copy also flushes the output of earlier kernels. */
static CUresult copy_run_now(struct stream *stream, struct op *op)
{
	const CUresult result = stream_run(stream, op);

	prints_flush();
	return result;
}

struct copy_call {
	uint64_t to;
	enum side to_side;
	uint64_t from;
	enum side from_side;
	size_t size;
	CUstream stream;
	enum when when;
};

static bool is_managed(uint64_t address)
{
	const struct range *range = space_find(address);

	return range && range->kind == RANGE_MANAGED;
}

static CUresult copy_start(const struct copy_call *call)
{
	bool to_pageable, from_pageable, staged;
	struct stream *stream;
	struct copy_op *copy;
	CUresult result = stream_find(call->stream, &stream);

	if (result || !call->size)
		return result;
	if (!call->to || !call->from)
		return CUDA_ERROR_INVALID_VALUE;
	result = side_check(call->to, call->size, call->to_side,
			    CU_MEM_ACCESS_FLAGS_PROT_READWRITE, &to_pageable);
	if (!result)
		result = side_check(call->from, call->size, call->from_side,
				    CU_MEM_ACCESS_FLAGS_PROT_READ, &from_pageable);
	if (result)
		return result;

	staged = call->when == QUEUED && from_pageable && call->size <= STAGED_MAX;
	copy = copy_new(call->to, call->from, call->size, staged);
	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (is_managed(call->to) || is_managed(call->from))
		copy->managed_on = stream;
	if (call->when == AT_ONCE || to_pageable || (from_pageable && !staged))
		return copy_run_now(stream, &copy->op);
	return stream_queue(stream, &copy->op);
}

static uint64_t host_address(const void *at)
{
	return (uint64_t)(uintptr_t)at;
}

CALL(cuMemcpy, NEED_CONTEXT, (CUdeviceptr to, CUdeviceptr from, size_t size),
     (to, from, size))
{
	return copy_start(
		&(struct copy_call){ to, SIDE_ANY, from, SIDE_ANY, size, NULL, AT_ONCE });
}

CALL(cuMemcpyHtoD_v2, NEED_CONTEXT, (CUdeviceptr to, const void *from, size_t size),
     (to, from, size))
{
	return copy_start(&(struct copy_call){ to, SIDE_DRIVER, host_address(from),
					       SIDE_ANY, size, NULL, AT_ONCE });
}

CALL(cuMemcpyDtoH_v2, NEED_CONTEXT, (void *to, CUdeviceptr from, size_t size),
     (to, from, size))
{
	return copy_start(&(struct copy_call){ host_address(to), SIDE_ANY, from,
					       SIDE_DRIVER, size, NULL, AT_ONCE });
}

CALL(cuMemcpyDtoD_v2, NEED_CONTEXT, (CUdeviceptr to, CUdeviceptr from, size_t size),
     (to, from, size))
{
	return copy_start(&(struct copy_call){ to, SIDE_DRIVER, from, SIDE_DRIVER, size,
					       NULL, AT_ONCE });
}

CALL(cuMemcpyAsync, NEED_CONTEXT,
     (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
     (to, from, size, stream))
{
	return copy_start(&(struct copy_call){ to, SIDE_ANY, from, SIDE_ANY, size, stream,
					       QUEUED });
}

CALL(cuMemcpyHtoDAsync_v2, NEED_CONTEXT,
     (CUdeviceptr to, const void *from, size_t size, CUstream stream),
     (to, from, size, stream))
{
	return copy_start(&(struct copy_call){ to, SIDE_DRIVER, host_address(from),
					       SIDE_ANY, size, stream, QUEUED });
}

CALL(cuMemcpyDtoHAsync_v2, NEED_CONTEXT,
     (void *to, CUdeviceptr from, size_t size, CUstream stream), (to, from, size, stream))
{
	return copy_start(&(struct copy_call){ host_address(to), SIDE_ANY, from,
					       SIDE_DRIVER, size, stream, QUEUED });
}

CALL(cuMemcpyDtoDAsync_v2, NEED_CONTEXT,
     (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
     (to, from, size, stream))
{
	return copy_start(&(struct copy_call){ to, SIDE_DRIVER, from, SIDE_DRIVER, size,
					       stream, QUEUED });
}

/* A context only has to be one and alive: every device reaches every other. */
static CUresult peer_check(CUcontext to, CUcontext from)
{
	const struct context *contexts[] = { context_find(to), context_find(from) };

	for (size_t i = 0; i < ARRAY_SIZE(contexts); i++) {
		if (!contexts[i])
			return CUDA_ERROR_INVALID_CONTEXT;
		if (!contexts[i]->n_retained)
			return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	return CUDA_SUCCESS;
}

CALL(cuMemcpyPeer, NEED_CONTEXT,
     (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
      size_t size),
     (to, to_context, from, from_context, size))
{
	CUresult result = peer_check(to_context, from_context);

	return result ? result : body_cuMemcpyDtoD_v2(to, from, size);
}

CALL(cuMemcpyPeerAsync, NEED_CONTEXT,
     (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
      size_t size, CUstream stream),
     (to, to_context, from, from_context, size, stream))
{
	CUresult result = peer_check(to_context, from_context);

	return result ? result : body_cuMemcpyDtoDAsync_v2(to, from, size, stream);
}

static void fill_row(unsigned char *to, const struct fill *fill)
{
	if (fill->unit == 1) {
		memset(to, (int)fill->value, fill->width);
		return;
	}
	for (size_t i = 0; i < fill->width; i++)
		memcpy(to + i * fill->unit, &fill->value, fill->unit);
}

static void fill_run(struct op *op, bool alive)
{
	struct fill_op *fill_op = container_of(op, struct fill_op, op);
	const struct fill *fill = &fill_op->fill;

	for (size_t row = 0; alive && fill_op->managed_on && row < fill->height; row++)
		managed_touch(fill_op->managed_on, fill->to + row * fill->pitch,
			      fill->width * fill->unit, true);
	unordered_begin();
	for (size_t row = 0; alive && row < fill->height; row++)
		fill_row((unsigned char *)(uintptr_t)fill->to + row * fill->pitch, fill);
	unordered_end();
	free(fill_op);
}

/* The bytes from the first to past the last: false where they don't fit 64 bits. */
static bool fill_extent(const struct fill *fill, uint64_t *ret)
{
	uint64_t row, rows;

	if (__builtin_mul_overflow(fill->width, fill->unit, &row) ||
	    __builtin_mul_overflow(fill->height - 1, fill->pitch, &rows) ||
	    __builtin_add_overflow(rows, row, ret))
		return false;
	return fill->height == 1 || row <= fill->pitch;
}

static CUresult fill_start(const struct fill *fill, CUstream handle, enum when when)
{
	struct fill_op *fill_op;
	struct stream *stream;
	uint64_t extent;
	bool pageable;
	CUresult result = stream_find(handle, &stream);

	if (result || !fill->width || !fill->height)
		return result;
	if (!fill_extent(fill, &extent) || fill->to % fill->unit ||
	    (fill->height > 1 && fill->pitch % fill->unit))
		return CUDA_ERROR_INVALID_VALUE;
	result = side_check(fill->to, extent, SIDE_DRIVER,
			    CU_MEM_ACCESS_FLAGS_PROT_READWRITE, &pageable);
	if (result)
		return result;
	fill_op = calloc(1, sizeof(*fill_op));
	if (!fill_op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fill_op->op.run = fill_run;
	fill_op->managed_on = is_managed(fill->to) ? stream : NULL;
	fill_op->fill = *fill;
	return when == AT_ONCE ? stream_run(stream, &fill_op->op)
			       : stream_queue(stream, &fill_op->op);
}

/* The twelve fills differ in the element and the parameters. */
#define FILL(symbol, type)                                                            \
	CALL(symbol, NEED_CONTEXT, (CUdeviceptr to, type value, size_t n),            \
	     (to, value, n))                                                          \
	{                                                                             \
		return fill_start(&(struct fill){ to, value, sizeof(type), n, 1, 0 }, \
				  NULL, AT_ONCE);                                     \
	}

#define FILL_ASYNC(symbol, type)                                                      \
	CALL(symbol, NEED_CONTEXT,                                                    \
	     (CUdeviceptr to, type value, size_t n, CUstream stream),                 \
	     (to, value, n, stream))                                                  \
	{                                                                             \
		return fill_start(&(struct fill){ to, value, sizeof(type), n, 1, 0 }, \
				  stream, QUEUED);                                    \
	}

#define FILL_2D(symbol, type)                                                            \
	CALL(symbol, NEED_CONTEXT,                                                       \
	     (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height),    \
	     (to, pitch, value, width, height))                                          \
	{                                                                                \
		return fill_start(                                                       \
			&(struct fill){ to, value, sizeof(type), width, height, pitch }, \
			NULL, AT_ONCE);                                                  \
	}

#define FILL_2D_ASYNC(symbol, type)                                                      \
	CALL(symbol, NEED_CONTEXT,                                                       \
	     (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height,     \
	      CUstream stream),                                                          \
	     (to, pitch, value, width, height, stream))                                  \
	{                                                                                \
		return fill_start(                                                       \
			&(struct fill){ to, value, sizeof(type), width, height, pitch }, \
			stream, QUEUED);                                                 \
	}

FILL(cuMemsetD8_v2, unsigned char)
FILL(cuMemsetD16_v2, unsigned short)
FILL(cuMemsetD32_v2, unsigned int)
FILL_2D(cuMemsetD2D8_v2, unsigned char)
FILL_2D(cuMemsetD2D16_v2, unsigned short)
FILL_2D(cuMemsetD2D32_v2, unsigned int)

FILL_ASYNC(cuMemsetD8Async, unsigned char)
FILL_ASYNC(cuMemsetD16Async, unsigned short)
FILL_ASYNC(cuMemsetD32Async, unsigned int)
FILL_2D_ASYNC(cuMemsetD2D8Async, unsigned char)
FILL_2D_ASYNC(cuMemsetD2D16Async, unsigned short)
FILL_2D_ASYNC(cuMemsetD2D32Async, unsigned int)
