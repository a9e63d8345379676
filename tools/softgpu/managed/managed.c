/* SPDX-License-Identifier: MIT */
/*
 * cuMemAllocManaged and cuStreamAttachMemAsync.
 *
 * Managed memory is ordinary memory of the process, at an address shared by the program
 * and all devices; fresh memory reads as zeros and takes nothing until a first touch.
 * Each allocation has whole pages of 2 MiB to itself. The place of a page is a note
 * (residency.c), which prefetches, kernels and copies change (migrate.c).
 *
 * Loads and stores of the program itself are not seen: catching them would take a fault
 * handler in the program, and system calls on such memory would fail. A test that looks
 * at pages declares the accesses of its own (softgpu.h).
 *
 * Without concurrent managed access (the option), memory is on the device that was
 * current at the allocation, for good, and attachment says which streams may use the
 * memory.
 */
#include "managed.h"

#include "softgpu/context.h"
#include "softgpu/run/stream.h"

#include <sys/mman.h>

#define ATTACH_ANY (CU_MEM_ATTACH_GLOBAL | CU_MEM_ATTACH_HOST | CU_MEM_ATTACH_SINGLE)

struct attach_op {
	struct op op;
	uint64_t address;
	struct stream *stream; /* with a reference, for CU_MEM_ATTACH_SINGLE */
	unsigned int flags;
};

/* Maps memory at a multiple of the page size and unmaps the surplus. */
static uint64_t memory_map(uint64_t size)
{
	unsigned char *at = mmap(NULL, size + RESIDENCY_PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t before;

	if (at == MAP_FAILED)
		return 0;
	before = (size_t)(align_up((uintptr_t)at, RESIDENCY_PAGE) - (uintptr_t)at);
	if (before)
		munmap(at, before);
	munmap(at + before + size, RESIDENCY_PAGE - before);
	return (uintptr_t)at + before;
}

static void managed_end(struct managed *managed, uint64_t address)
{
	const uint64_t size = managed->residency.n_pages * RESIDENCY_PAGE;

	residency_close(&managed->residency);
	policies_deinit(&managed->policies);
	stream_unref(managed->stream);
	munmap((void *)(uintptr_t)address, size);
	free(managed);
}

void managed_free(struct range *range)
{
	managed_end(range->owner, range->start);
	space_remove(range);
}

static struct managed *managed_new(uint64_t address, uint64_t size, unsigned int attached)
{
	_cleanup_free_ struct managed *managed = calloc(1, sizeof(*managed));

	if (!managed)
		return NULL;
	managed->attached = managed->attached_at_first = attached;
	if (!policies_init(&managed->policies, size / POLICY_PAGE))
		return NULL;
	if (residency_open(&managed->residency, address, size / RESIDENCY_PAGE) < 0) {
		policies_deinit(&managed->policies);
		return NULL;
	}
	return take_ptr(managed);
}

/* Without concurrent managed access all pages are on the device from the start. */
static bool managed_populate(struct managed *managed, int device)
{
	for (size_t i = 0; !options.concurrent && i < managed->residency.n_pages; i++)
		if (!residency_move(&managed->residency, i, WHERE_DEVICE(device)))
			return false;
	return true;
}

static CUresult managed_add(uint64_t address, uint64_t size, unsigned int attached)
{
	const uint64_t bytes = align_up(size, RESIDENCY_PAGE);
	struct managed *managed = managed_new(address, bytes, attached);
	const struct range range = {
		.start = address,
		.size = size,
		.kind = RANGE_MANAGED,
		.device = context_current()->device,
		.context = context_current(),
		.owner = managed,
	};

	if (!managed) {
		munmap((void *)(uintptr_t)address, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!managed_populate(managed, range.device) || !space_add(&range)) {
		managed_end(managed, address);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CALL(cuMemAllocManaged, NEED_CONTEXT,
     (CUdeviceptr * ret, size_t size, unsigned int flags), (ret, size, flags))
{
	uint64_t address;
	CUresult result;

	if (!ret || !size)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > options.managed)
		return CUDA_ERROR_OUT_OF_MEMORY;
	address = memory_map(align_up(size, RESIDENCY_PAGE));
	if (!address)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = managed_add(address, size, flags);
	if (!result)
		*ret = address;
	return result;
}

/* The last CPU page counts whole, as the driver rounds. */
struct range *managed_find(uint64_t address, uint64_t length)
{
	struct range *range = space_find(address & ~(POLICY_PAGE - 1));
	uint64_t room;

	if (!range || range->kind != RANGE_MANAGED)
		return NULL;
	room = align_up(range->size, POLICY_PAGE) - (address - range->start);
	return length && length <= room ? range : NULL;
}

static void attach_set(struct managed *managed, unsigned int flags, struct stream *stream)
{
	stream_unref(managed->stream);
	managed->stream = stream ? stream_ref(stream) : NULL;
	managed->attached = flags;
}

static void attach_run(struct op *op, bool alive)
{
	struct attach_op *attach = container_of(op, struct attach_op, op);
	struct range *range;

	call_lock();
	range = managed_find(attach->address, 1);
	if (alive && range && range->start == attach->address)
		attach_set(range->owner, attach->flags, attach->stream);
	stream_unref(attach->stream);
	call_unlock();
	free(attach);
}

CALL(cuStreamAttachMemAsync, NEED_CONTEXT,
     (CUstream handle, CUdeviceptr address, size_t length, unsigned int flags),
     (handle, address, length, flags))
{
	const struct range *range = managed_find(address, 1);
	const bool single = flags == CU_MEM_ATTACH_SINGLE;
	struct attach_op *attach;
	struct stream *stream;
	CUresult result = stream_find(handle, &stream);

	if (result)
		return result;
	if (!range || range->start != address || (length && length != range->size))
		return CUDA_ERROR_INVALID_VALUE;
	if (!flags || flags & ~(unsigned int)ATTACH_ANY || flags & (flags - 1))
		return CUDA_ERROR_INVALID_VALUE;
	if (single && stream == stream->context->legacy)
		return CUDA_ERROR_INVALID_VALUE;
	attach = calloc(1, sizeof(*attach));
	if (!attach)
		return CUDA_ERROR_OUT_OF_MEMORY;
	attach->op.run = attach_run;
	attach->address = address;
	attach->stream = single ? stream_ref(stream) : NULL;
	attach->flags = flags;
	return stream_queue(stream, &attach->op);
}
