/* SPDX-License-Identifier: MIT */
/*
 * Host memory of the driver (cuMemHostAlloc) and memory of the program that is
 * registered with it. Either is a range of the address space, with the same address on
 * the host and on every device.
 */
#include "host.h"

#include "softgpu/context.h"
#include "softgpu/run/stream.h"
#include "space.h"

#include <sys/mman.h>

#define ALLOC_FLAGS                                             \
	(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | \
	 CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                \
	(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | \
	 CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

void host_free(struct range *range)
{
	if (range->kind == RANGE_HOST)
		munmap((void *)(uintptr_t)range->start, range->size);
	space_remove(range);
}

/* Whether all pages of a stretch are mapped in the process. */
static bool pages_exist(uint64_t start, uint64_t size)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const uint64_t first = start & ~(page - 1);

	return msync((void *)(uintptr_t)first, align_up(start + size - first, page),
		     MS_ASYNC) == 0;
}

static CUresult host_add(uint64_t start, size_t size, enum range_kind kind,
			 bool read_only)
{
	const struct range range = {
		.start = start,
		.size = size,
		.kind = kind,
		.device = context_current()->device,
		.context = context_current(),
		.read_only = read_only,
	};

	return space_add(&range) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CALL(cuMemHostAlloc, NEED_CONTEXT, (void **ret, size_t size, unsigned int flags),
     (ret, size, flags))
{
	CUresult result;
	void *at;

	if (!ret || !size || flags & ~(unsigned int)ALLOC_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = host_add((uint64_t)(uintptr_t)at, size, RANGE_HOST, false);
	if (result)
		munmap(at, size);
	else
		*ret = at;
	return result;
}

CALL(cuMemFreeHost, NEED_CONTEXT, (void *at), (at))
{
	const uint64_t address = (uint64_t)(uintptr_t)at;
	struct range *range = space_find(address);

	if (!at)
		return CUDA_SUCCESS;
	if (!range || range->start != address || range->kind != RANGE_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	streams_drain(NULL);
	range = space_find(address);
	if (!range || range->start != address)
		return CUDA_ERROR_INVALID_VALUE;
	host_free(range);
	return CUDA_SUCCESS;
}

CALL(cuMemHostRegister_v2, NEED_CONTEXT, (void *at, size_t size, unsigned int flags),
     (at, size, flags))
{
	const uint64_t start = (uint64_t)(uintptr_t)at;
	const struct range *range;

	if (!at || !size || start + size < start || flags & ~(unsigned int)REGISTER_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	range = space_overlap(start, size);
	if (range)
		return range_is_host(range) ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
					    : CUDA_ERROR_INVALID_VALUE;
	if (!pages_exist(start, size))
		return CUDA_ERROR_INVALID_VALUE;
	return host_add(start, size, RANGE_REGISTERED,
			flags & CU_MEMHOSTREGISTER_READ_ONLY);
}

CALL(cuMemHostUnregister, NEED_CONTEXT, (void *at), (at))
{
	const uint64_t address = (uint64_t)(uintptr_t)at;
	struct range *range = space_find(address);

	if (!at)
		return CUDA_ERROR_INVALID_VALUE;
	if (!range || range->start != address || range->kind != RANGE_REGISTERED)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	streams_drain(NULL);
	range = space_find(address);
	if (!range || range->start != address)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	host_free(range);
	return CUDA_SUCCESS;
}

CALL(cuMemHostGetDevicePointer_v2, NEED_CONTEXT,
     (CUdeviceptr * ret, void *at, unsigned int flags), (ret, at, flags))
{
	const uint64_t address = (uint64_t)(uintptr_t)at;
	const struct range *range = space_find(address);

	if (!ret || flags || !range || !range_is_host(range))
		return CUDA_ERROR_INVALID_VALUE;
	*ret = address;
	return CUDA_SUCCESS;
}
