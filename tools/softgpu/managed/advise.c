/* SPDX-License-Identifier: MIT */
/*
 * cuMemPrefetchAsync, cuMemAdvise and cuMemRangeGetAttribute: the older forms know
 * devices and the CPU, the newer forms have locations.
 *
 * A range is rounded out to CPU pages. A prefetch counts as the last prefetch from the
 * call on, and moves pages when the stream gets there; advice holds at once.
 */
#include "managed.h"
#include "softgpu/context.h"
#include "softgpu/run/stream.h"

#include <sched.h>
#include <string.h>

struct prefetch_op {
	struct op op;
	uint64_t address;
	uint64_t length;
	CUmemLocation location;
};

/* A range of managed memory, rounded out to CPU pages, numbered in its allocation. */
struct part {
	struct range *range;
	struct managed *managed;
	size_t from;
	size_t to;
};

static CUresult part_find(uint64_t address, uint64_t length, struct part *ret)
{
	struct range *range = managed_find(address, length);

	if (!range)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (struct part){
		.range = range,
		.managed = range->owner,
		.from = (size_t)((address - range->start) / POLICY_PAGE),
		.to = (size_t)((address - range->start + length + POLICY_PAGE - 1) /
			       POLICY_PAGE),
	};
	return CUDA_SUCCESS;
}

static CUresult part_change(const struct part *part,
			    void (*change)(struct policy *policy, const void *data),
			    const void *data)
{
	return policies_change(&part->managed->policies, part->from, part->to, change,
			       data)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUmemLocation location_of_device(CUdevice device)
{
	if (device == CU_DEVICE_CPU)
		return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST };
	return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device };
}

/* In the older form. A node of the host is the CPU. */
static int device_of_location(const CUmemLocation *location)
{
	switch ((int)location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return location->id;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return CU_DEVICE_CPU;
	default:
		return CU_DEVICE_INVALID;
	}
}

static CUresult check_device(int device)
{
	if (device < 0 || device >= options.n_devices || !options.concurrent)
		return CUDA_ERROR_INVALID_DEVICE;
	return CUDA_SUCCESS;
}

/* Leaves each location in a single form: the current node by number, no idle id. */
static CUresult location_check(CUmemLocation *location)
{
	unsigned int cpu, node;

	switch ((int)location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return check_device(location->id);
	case CU_MEM_LOCATION_TYPE_HOST:
		location->id = 0;
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		break;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		location->type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
		location->id = getcpu(&cpu, &node) < 0 ? 0 : (int)node;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return location->id >= 0 && location->id < options.n_nodes
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

static void change_prefetched(struct policy *policy, const void *location)
{
	policy->prefetched = *(const CUmemLocation *)location;
}

static void prefetch_run(struct op *op, bool alive)
{
	struct prefetch_op *prefetch = container_of(op, struct prefetch_op, op);
	struct range *range;

	call_lock();
	range = managed_find(prefetch->address, prefetch->length);
	if (alive && range)
		managed_prefetch(range, prefetch->address,
				 prefetch->address + prefetch->length,
				 &prefetch->location);
	call_unlock();
	free(prefetch);
}

static CUresult prefetch_start(uint64_t address, size_t length, CUmemLocation location,
			       CUstream handle)
{
	struct prefetch_op *prefetch;
	struct stream *stream;
	struct part part;
	CUresult result = stream_find(handle, &stream);

	/* Hardware accepts a range that is empty after rounding. */
	if (!result && length && !align_up(length, POLICY_PAGE))
		return CUDA_SUCCESS;
	if (!result)
		result = part_find(address, length, &part);
	if (!result)
		result = location_check(&location);
	if (!result)
		result = check_device(stream->context->device);
	if (result)
		return result;
	prefetch = calloc(1, sizeof(*prefetch));
	if (!prefetch)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = part_change(&part, change_prefetched, &location);
	if (result) {
		free(prefetch);
		return result;
	}
	prefetch->op.run = prefetch_run;
	prefetch->address = address;
	prefetch->length = length;
	prefetch->location = location;
	return stream_queue(stream, &prefetch->op);
}

CALL(cuMemPrefetchAsync, NEED_CONTEXT,
     (CUdeviceptr address, size_t length, CUdevice device, CUstream stream),
     (address, length, device, stream))
{
	return prefetch_start(address, length, location_of_device(device), stream);
}

CALL(cuMemPrefetchAsync_v2, NEED_CONTEXT,
     (CUdeviceptr address, size_t length, CUmemLocation location, unsigned int flags,
      CUstream stream),
     (address, length, location, flags, stream))
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	return prefetch_start(address, length, location, stream);
}

static void change_read_mostly(struct policy *policy, const void *location)
{
	(void)location;
	policy->read_mostly = true;
}

static void change_not_read_mostly(struct policy *policy, const void *location)
{
	(void)location;
	policy->read_mostly = false;
}

/*
 * The driver of CUDA 13.0 accepts a NUMA node of the host, and goes on reporting the
 * former location.
 */
static void change_preferred(struct policy *policy, const void *location)
{
	policy->preferred = *(const CUmemLocation *)location;
	if ((int)policy->preferred.type != CU_MEM_LOCATION_TYPE_HOST_NUMA)
		policy->preferred_told = policy->preferred;
}

static void change_not_preferred(struct policy *policy, const void *location)
{
	(void)location;
	policy->preferred = policy->preferred_told = LOCATION_NONE;
}

static uint32_t accessed_by_bit(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? 1U << location->id
							     : ACCESSED_BY_HOST;
}

static void change_accessed_by(struct policy *policy, const void *location)
{
	policy->accessed_by |= accessed_by_bit(location);
}

static void change_not_accessed_by(struct policy *policy, const void *location)
{
	policy->accessed_by &= ~accessed_by_bit(location);
}

static const struct advice {
	void (*change)(struct policy *policy, const void *location);
	bool takes_location;
	bool takes_nodes;
} advices[] = {
	[CU_MEM_ADVISE_SET_READ_MOSTLY] = { change_read_mostly, false, false },
	[CU_MEM_ADVISE_UNSET_READ_MOSTLY] = { change_not_read_mostly, false, false },
	[CU_MEM_ADVISE_SET_PREFERRED_LOCATION] = { change_preferred, true, true },
	[CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION] = { change_not_preferred, false, false },
	[CU_MEM_ADVISE_SET_ACCESSED_BY] = { change_accessed_by, true, false },
	[CU_MEM_ADVISE_UNSET_ACCESSED_BY] = { change_not_accessed_by, true, false },
};

static CUresult advise(uint64_t address, size_t length, CUmem_advise which,
		       CUmemLocation location)
{
	const struct advice *advice;
	struct part part;
	CUresult result = part_find(address, length, &part);

	if (result)
		return result;
	if ((size_t)which >= ARRAY_SIZE(advices) || !advices[which].change)
		return CUDA_ERROR_INVALID_VALUE;
	advice = &advices[which];
	if (advice->takes_location && !advice->takes_nodes &&
	    location.type != CU_MEM_LOCATION_TYPE_DEVICE &&
	    location.type != CU_MEM_LOCATION_TYPE_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	result = advice->takes_location ? location_check(&location) : CUDA_SUCCESS;
	if (!result)
		result = part_change(&part, advice->change, &location);
	if (!result && which == CU_MEM_ADVISE_UNSET_READ_MOSTLY)
		managed_collapse(part.range, address, address + length);
	return result;
}

CALL(cuMemAdvise, NEED_CONTEXT,
     (CUdeviceptr address, size_t length, CUmem_advise which, CUdevice device),
     (address, length, which, device))
{
	return advise(address, length, which, location_of_device(device));
}

CALL(cuMemAdvise_v2, NEED_CONTEXT,
     (CUdeviceptr address, size_t length, CUmem_advise which, CUmemLocation location),
     (address, length, which, location))
{
	return advise(address, length, which, location);
}

/* Fills the list with the devices of accessed_by, then with CU_DEVICE_INVALID. */
static void accessed_by_list(uint32_t accessed_by, int *ret, size_t n)
{
	size_t filled = 0;

	for (int device = 0; device < options.n_devices && filled < n; device++)
		if (accessed_by & (1U << device))
			ret[filled++] = device;
	if (accessed_by & ACCESSED_BY_HOST && filled < n)
		ret[filled++] = CU_DEVICE_CPU;
	while (filled < n)
		ret[filled++] = CU_DEVICE_INVALID;
}

static int policy_number(const struct policy *policy, CUmem_range_attribute attribute)
{
	switch ((int)attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		return policy->read_mostly;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		return device_of_location(&policy->preferred_told);
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		return device_of_location(&policy->prefetched);
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		return (int)policy->preferred_told.type;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		return policy->preferred_told.id;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		return (int)policy->prefetched.type;
	default:
		return policy->prefetched.id;
	}
}

static bool attribute_fits(const void *ret, size_t size, CUmem_range_attribute attribute)
{
	if (!ret || attribute < CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ||
	    attribute > CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID)
		return false;
	if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
		return size && size % sizeof(int) == 0;
	return size == sizeof(int);
}

static void attribute_get(const struct policy *policy, void *ret, size_t size,
			  CUmem_range_attribute attribute)
{
	if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
		accessed_by_list(policy->accessed_by, ret, size / sizeof(int));
	else
		*(int *)ret = policy_number(policy, attribute);
}

static CUresult range_get(void **ret, const size_t *sizes,
			  const CUmem_range_attribute *attributes, size_t n,
			  uint64_t address, size_t length)
{
	struct policy policy;
	struct part part;
	CUresult result = part_find(address, length, &part);

	if (result)
		return result;
	for (size_t i = 0; i < n; i++)
		if (!attribute_fits(ret[i], sizes[i], attributes[i]))
			return CUDA_ERROR_INVALID_VALUE;
	policy = policies_common(&part.managed->policies, part.from, part.to);
	for (size_t i = 0; i < n; i++)
		attribute_get(&policy, ret[i], sizes[i], attributes[i]);
	return CUDA_SUCCESS;
}

CALL(cuMemRangeGetAttribute, NEED_CONTEXT,
     (void *ret, size_t size, CUmem_range_attribute attribute, CUdeviceptr address,
      size_t length),
     (ret, size, attribute, address, length))
{
	return range_get(&ret, &size, &attribute, 1, address, length);
}

CALL(cuMemRangeGetAttributes, NEED_CONTEXT,
     (void **ret, size_t *sizes, CUmem_range_attribute *attributes, size_t n,
      CUdeviceptr address, size_t length),
     (ret, sizes, attributes, n, address, length))
{
	if (!ret || !sizes || !attributes || !n)
		return CUDA_ERROR_INVALID_VALUE;
	return range_get(ret, sizes, attributes, n, address, length);
}
