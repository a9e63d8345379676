/* SPDX-License-Identifier: MIT */
/*
 * The VMM family: addresses and physical memory apart.
 *
 * A reservation is an mmap of nothing with no access, at the hint where that is free. A
 * handle is physical memory (ledger.h) held by a descriptor; an export gives a copy of
 * the descriptor. A mapping is an mmap of the descriptor over a part of a reservation,
 * with no access until cuMemSetAccess, which is mprotect: the process may do whatever any
 * device may.
 *
 * A handle counts references (create, import, retain) and mappings; the memory is let go
 * when both are gone. All of this belongs to the process and to no context.
 */
#include "vmm.h"

#include "ledger.h"
#include "softgpu/context.h"
#include "softgpu/run/stream.h"
#include "space.h"
#include "truncated.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <uthash.h>

struct reservation {
	struct reservation *next;
	uint64_t start;
	uint64_t size;
};

struct handle {
	UT_hash_handle hh;
	uint64_t id; /* the program's CUmemGenericAllocationHandle */
	struct memory memory;
	int handle_types;
	bool imported;
	unsigned int n_refs;
	unsigned int n_mappings;
};

static struct reservation *reservations; /* under the library's lock */
static struct handle *handles;		 /* by id, under the library's lock */
static uint64_t last_handle;

static struct reservation *reservation_find(uint64_t start, uint64_t size)
{
	struct reservation *r = reservations;

	while (r && (start >= r->start + r->size || start + size <= r->start))
		r = r->next;
	return r;
}

bool vmm_is_reserved(uint64_t start, uint64_t size)
{
	return reservation_find(start, size) != NULL;
}

int vmm_handle_types(const struct range *range)
{
	return ((const struct handle *)range->owner)->handle_types;
}

static bool is_granular(uint64_t value)
{
	return value % OPTIONS_GRANULARITY == 0;
}

/* At the hint and nowhere else. Returns: the address, or 0. */
static uint64_t reserve_at(uint64_t hint, uint64_t size)
{
	void *at = mmap((void *)(uintptr_t)hint, size, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
			-1, 0);

	return at == MAP_FAILED ? 0 : (uint64_t)(uintptr_t)at;
}

/* Reserves aligned addresses anywhere: reserves more, then unmaps the surplus. */
static uint64_t reserve_anywhere(uint64_t size, uint64_t alignment)
{
	const uint64_t whole = size + alignment;
	uint64_t base, start;
	void *at;

	if (whole < size)
		return 0;
	at = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		  0);
	if (at == MAP_FAILED)
		return 0;
	base = (uint64_t)(uintptr_t)at;
	start = align_up(base, alignment);
	if (start > base)
		munmap(at, start - base);
	if (base + whole > start + size)
		munmap((void *)(uintptr_t)(start + size), base + whole - start - size);
	return start;
}

CALL(cuMemAddressReserve, NEED_INIT,
     (CUdeviceptr * ret, size_t size, size_t alignment, CUdeviceptr hint,
      unsigned long long flags),
     (ret, size, alignment, hint, flags))
{
	struct reservation *reservation;
	uint64_t start = 0;

	if (!ret || !size || !is_granular(size) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (alignment & (alignment - 1))
		return CUDA_ERROR_INVALID_VALUE;
	alignment = MAX((uint64_t)alignment, OPTIONS_GRANULARITY);
	reservation = calloc(1, sizeof(*reservation));
	if (!reservation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (hint && hint % alignment == 0)
		start = reserve_at(hint, size);
	if (!start)
		start = reserve_anywhere(size, alignment);
	if (!start) {
		free(reservation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	reservation->start = start;
	reservation->size = size;
	reservation->next = reservations;
	reservations = reservation;
	*ret = start;
	return CUDA_SUCCESS;
}

CALL(cuMemAddressFree, NEED_INIT, (CUdeviceptr start, size_t size), (start, size))
{
	struct reservation **link = &reservations;
	struct reservation *reservation;

	while (*link && ((*link)->start != start || (*link)->size != size))
		link = &(*link)->next;
	reservation = *link;
	if (!reservation || space_overlap(start, size))
		return CUDA_ERROR_INVALID_VALUE;
	munmap((void *)(uintptr_t)start, size);
	*link = reservation->next;
	free(reservation);
	return CUDA_SUCCESS;
}

static struct handle *handle_find(CUmemGenericAllocationHandle id)
{
	const uint64_t key = id;
	struct handle *handle;

	HASH_FIND(hh, handles, &key, sizeof(key), handle);
	return handle && handle->n_refs ? handle : NULL;
}

/* Takes the memory over. Returns: the handle with one reference, or NULL. */
static struct handle *handle_new(const struct memory *memory, int handle_types,
				 bool imported)
{
	struct handle *handle = calloc(1, sizeof(*handle));

	if (!handle)
		return NULL;
	handle->id = ++last_handle << 8;
	handle->memory = *memory;
	handle->handle_types = handle_types;
	handle->imported = imported;
	handle->n_refs = 1;
	HASH_ADD(hh, handles, id, sizeof(handle->id), handle);
	return handle;
}

static void handle_settle(struct handle *handle)
{
	if (handle->n_refs || handle->n_mappings)
		return;
	HASH_DELETE(hh, handles, handle);
	ledger_release(&handle->memory);
	free(handle);
}

/* Every handle is a descriptor here, and a thousand is soon reached. */
static void descriptors_raise(void)
{
	static bool raised;
	struct rlimit limit;

	if (raised || getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	raised = true;
}

static CUresult prop_check(const CUmemAllocationProp *prop)
{
	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location.id < 0 || prop->location.id >= options.n_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	if (prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

static void prop_fill(CUmemAllocationProp *prop, const struct handle *handle)
{
	*prop = (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = (CUmemAllocationHandleType)handle->handle_types,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	prop->location.id = handle->memory.device;
}

CALL(cuMemGetAllocationGranularity, NEED_INIT,
     (size_t * ret, const CUmemAllocationProp *prop,
      CUmemAllocationGranularity_flags which),
     (ret, prop, which))
{
	CUresult result = prop_check(prop);

	if (result)
		return result;
	if (!ret || (which != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
		     which != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return CUDA_ERROR_INVALID_VALUE;
	*ret = OPTIONS_GRANULARITY;
	return CUDA_SUCCESS;
}

CALL(cuMemCreate, NEED_INIT,
     (CUmemGenericAllocationHandle * ret, size_t size, const CUmemAllocationProp *prop,
      unsigned long long flags),
     (ret, size, prop, flags))
{
	CUresult result = prop_check(prop);
	struct memory memory;
	struct handle *handle;

	if (result)
		return result;
	if (!ret || !size || !is_granular(size) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	descriptors_raise();
	if (ledger_create(prop->location.id, size, &memory) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	handle = handle_new(&memory, (int)prop->requestedHandleTypes, false);
	if (!handle) {
		ledger_release(&memory);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = handle->id;
	return CUDA_SUCCESS;
}

CALL(cuMemRelease, NEED_INIT, (CUmemGenericAllocationHandle id), (id))
{
	struct handle *handle = handle_find(id);

	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	handle->n_refs--;
	handle_settle(handle);
	return CUDA_SUCCESS;
}

CALL(cuMemExportToShareableHandle, NEED_INIT,
     (void *ret, CUmemGenericAllocationHandle id, CUmemAllocationHandleType type,
      unsigned long long flags),
     (ret, id, type, flags))
{
	const struct handle *handle = handle_find(id);
	int fd;

	if (!ret || !handle || flags || handle->imported ||
	    type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !(handle->handle_types & (int)type))
		return CUDA_ERROR_INVALID_VALUE;
	fd = ledger_export(&handle->memory);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)ret = fd;
	return CUDA_SUCCESS;
}

CALL(cuMemImportFromShareableHandle, NEED_INIT,
     (CUmemGenericAllocationHandle * ret, void *os_handle,
      CUmemAllocationHandleType type),
     (ret, os_handle, type))
{
	struct memory memory;
	struct handle *handle;

	if (!ret || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	descriptors_raise();
	if (ledger_import((int)(intptr_t)os_handle, &memory) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	handle = handle_new(&memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, true);
	if (!handle) {
		ledger_release(&memory);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = handle->id;
	return CUDA_SUCCESS;
}

CALL(cuMemRetainAllocationHandle, NEED_INIT,
     (CUmemGenericAllocationHandle * ret, void *address), (ret, address))
{
	const struct range *range = space_find((uint64_t)(uintptr_t)address);
	struct handle *handle;

	if (!ret || !range || range->kind != RANGE_MAPPING)
		return CUDA_ERROR_INVALID_VALUE;
	handle = range->owner;
	handle->n_refs++;
	*ret = handle->id;
	return CUDA_SUCCESS;
}

CALL(cuMemGetAllocationPropertiesFromHandle, NEED_INIT,
     (CUmemAllocationProp * ret, CUmemGenericAllocationHandle id), (ret, id))
{
	const struct handle *handle = handle_find(id);

	if (!ret || !handle)
		return CUDA_ERROR_INVALID_VALUE;
	prop_fill(ret, handle);
	return CUDA_SUCCESS;
}

/* Inside one reservation, with nothing mapped there yet. */
static bool is_mappable(uint64_t start, uint64_t size)
{
	const struct reservation *r = reservation_find(start, size);

	return r && start >= r->start && size <= r->size &&
	       start - r->start <= r->size - size && !space_overlap(start, size);
}

CALL(cuMemMap, NEED_INIT,
     (CUdeviceptr start, size_t size, size_t offset, CUmemGenericAllocationHandle id,
      unsigned long long flags),
     (start, size, offset, id, flags))
{
	struct handle *handle = handle_find(id);
	struct range range = { .start = start, .size = size, .kind = RANGE_MAPPING };
	struct range *kept;

	if (!handle || flags || offset || !size || size > handle->memory.size)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_granular(start) || !is_granular(size) || !is_mappable(start, size))
		return CUDA_ERROR_INVALID_VALUE;
	range.device = handle->memory.device;
	range.owner = handle;
	kept = space_add(&range);
	if (!kept)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (mmap((void *)(uintptr_t)start, size, PROT_NONE, MAP_SHARED | MAP_FIXED,
		 handle->memory.fd, 0) == MAP_FAILED) {
		space_remove(kept);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	truncated_watch(start, size, handle->memory.fd);
	handle->n_mappings++;
	return CUDA_SUCCESS;
}

/* Whether a stretch is whole mappings, side by side. */
static bool is_whole(uint64_t start, uint64_t size)
{
	uint64_t at = start;

	while (size && at < start + size) {
		const struct range *range = space_find(at);

		if (!range || range->kind != RANGE_MAPPING || range->start != at)
			return false;
		at = range_end(range);
	}
	return size && at == start + size;
}

static void mapping_end(struct range *range)
{
	struct handle *handle = range->owner;

	truncated_forget(range->start);
	mmap((void *)(uintptr_t)range->start, range->size, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	space_remove(range);
	handle->n_mappings--;
	handle_settle(handle);
}

/* Work in flight is waited for: on hardware it would fault. */
CALL(cuMemUnmap, NEED_INIT, (CUdeviceptr start, size_t size), (start, size))
{
	if (!is_whole(start, size))
		return CUDA_ERROR_INVALID_VALUE;
	streams_drain(NULL);
	if (!is_whole(start, size))
		return CUDA_ERROR_INVALID_VALUE;
	for (uint64_t at = start; at < start + size;) {
		struct range *range = space_find(at);

		at = range_end(range);
		mapping_end(range);
	}
	return CUDA_SUCCESS;
}

static CUresult access_check(const CUmemAccessDesc *desc)
{
	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->location.id < 0 || desc->location.id >= options.n_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	switch ((int)desc->flags) {
	case CU_MEM_ACCESS_FLAGS_PROT_NONE:
	case CU_MEM_ACCESS_FLAGS_PROT_READ:
	case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* The flags of CUDA are the bits of PROT_READ and PROT_WRITE. */
static CUresult mapping_protect(const struct range *range)
{
	const unsigned int access = range_access(range);

	if (mprotect((void *)(uintptr_t)range->start, range->size, (int)access) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

CALL(cuMemSetAccess, NEED_INIT,
     (CUdeviceptr start, size_t size, const CUmemAccessDesc *descs, size_t n),
     (start, size, descs, n))
{
	CUresult result = CUDA_SUCCESS;

	if (!descs || !n || !is_whole(start, size))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n && !result; i++)
		result = access_check(&descs[i]);
	for (uint64_t at = start; at < start + size && !result;) {
		struct range *range = space_find(at);

		for (size_t i = 0; i < n; i++)
			range->access[descs[i].location.id] =
				(unsigned char)descs[i].flags;
		space_changed();
		result = mapping_protect(range);
		at = range_end(range);
	}
	return result;
}

CALL(cuMemGetAccess, NEED_INIT,
     (unsigned long long *ret, const CUmemLocation *location, CUdeviceptr address),
     (ret, location, address))
{
	const struct range *range = space_find(address);

	if (!ret || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !range || range->kind != RANGE_MAPPING)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->id < 0 || location->id >= options.n_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	*ret = range->access[location->id];
	return CUDA_SUCCESS;
}
