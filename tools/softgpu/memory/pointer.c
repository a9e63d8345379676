/* SPDX-License-Identifier: MIT */
/*
 * The attributes of pointers: a table, each row with the type of the answer and a
 * function that finds the answer. Pointers to pageable memory have none.
 */
#include "pool.h"
#include "softgpu/context.h"
#include "space.h"
#include "vmm.h"

#include <string.h>

union value {
	CUcontext context;
	CUmemoryPool pool;
	unsigned int number;
	unsigned long long wide;
	CUdeviceptr address;
	void *host;
	size_t size;
	bool truth;
};

struct attribute {
	size_t size; /* of the answer; 0: no such attribute */
	CUresult (*get)(const struct range *range, uint64_t address, union value *ret);
};

static CUresult get_context(const struct range *range, uint64_t address, union value *ret)
{
	(void)address;
	ret->context = context_handle(range->context);
	return CUDA_SUCCESS;
}

static CUresult get_memory_type(const struct range *range, uint64_t address,
				union value *ret)
{
	(void)address;
	ret->number = range_is_host(range) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	return CUDA_SUCCESS;
}

static CUresult get_address(const struct range *range, uint64_t address, union value *ret)
{
	(void)range;
	ret->address = address;
	return CUDA_SUCCESS;
}

static CUresult get_host_address(const struct range *range, uint64_t address,
				 union value *ret)
{
	if (!range_is_host(range) && range->kind != RANGE_MANAGED)
		return CUDA_ERROR_INVALID_VALUE;
	ret->host = (void *)(uintptr_t)address;
	return CUDA_SUCCESS;
}

static CUresult get_id(const struct range *range, uint64_t address, union value *ret)
{
	(void)address;
	ret->wide = range->id;
	return CUDA_SUCCESS;
}

static CUresult get_managed(const struct range *range, uint64_t address, union value *ret)
{
	(void)address;
	ret->number = range->kind == RANGE_MANAGED;
	return CUDA_SUCCESS;
}

static CUresult get_device(const struct range *range, uint64_t address, union value *ret)
{
	(void)address;
	ret->number = (unsigned int)range->device;
	return CUDA_SUCCESS;
}

static CUresult get_start(const struct range *range, uint64_t address, union value *ret)
{
	(void)address;
	ret->address = range->start;
	return CUDA_SUCCESS;
}

static CUresult get_size(const struct range *range, uint64_t address, union value *ret)
{
	(void)address;
	ret->size = range->size;
	return CUDA_SUCCESS;
}

static CUresult get_mapped(const struct range *range, uint64_t address, union value *ret)
{
	(void)range;
	(void)address;
	ret->truth = true;
	return CUDA_SUCCESS;
}

static CUresult get_handle_types(const struct range *range, uint64_t address,
				 union value *ret)
{
	(void)address;
	ret->wide = range->kind == RANGE_MAPPING
			    ? (unsigned long long)vmm_handle_types(range)
			    : 0;
	return CUDA_SUCCESS;
}

static CUresult get_access(const struct range *range, uint64_t address, union value *ret)
{
	const struct context *context = context_current();

	(void)address;
	ret->number = range_access(range);
	if (range->kind == RANGE_MAPPING)
		ret->number = context ? range->access[context->device] : 0;
	return CUDA_SUCCESS;
}

static CUresult get_pool(const struct range *range, uint64_t address, union value *ret)
{
	(void)address;
	ret->pool = range->kind == RANGE_POOL ? pool_of_range(range) : NULL;
	return CUDA_SUCCESS;
}

static const struct attribute attributes[] = {
	[CU_POINTER_ATTRIBUTE_CONTEXT] = { sizeof(CUcontext), get_context },
	[CU_POINTER_ATTRIBUTE_MEMORY_TYPE] = { sizeof(int), get_memory_type },
	[CU_POINTER_ATTRIBUTE_DEVICE_POINTER] = { sizeof(CUdeviceptr), get_address },
	[CU_POINTER_ATTRIBUTE_HOST_POINTER] = { sizeof(void *), get_host_address },
	[CU_POINTER_ATTRIBUTE_BUFFER_ID] = { sizeof(long long), get_id },
	[CU_POINTER_ATTRIBUTE_IS_MANAGED] = { sizeof(int), get_managed },
	[CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL] = { sizeof(int), get_device },
	[CU_POINTER_ATTRIBUTE_RANGE_START_ADDR] = { sizeof(CUdeviceptr), get_start },
	[CU_POINTER_ATTRIBUTE_RANGE_SIZE] = { sizeof(size_t), get_size },
	[CU_POINTER_ATTRIBUTE_MAPPED] = { sizeof(bool), get_mapped },
	[CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES] = { sizeof(long long),
							get_handle_types },
	[CU_POINTER_ATTRIBUTE_ACCESS_FLAGS] = { sizeof(int), get_access },
	[CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE] = { sizeof(CUmemoryPool), get_pool },
	[CU_POINTER_ATTRIBUTE_MAPPING_SIZE] = { sizeof(size_t), get_size },
	[CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR] = { sizeof(CUdeviceptr), get_start },
};

CALL(cuPointerGetAttribute, NEED_INIT,
     (void *ret, CUpointer_attribute attribute, CUdeviceptr address),
     (ret, attribute, address))
{
	const struct range *range = space_find(address);
	union value value = { 0 };
	CUresult result;

	if (!ret || (size_t)attribute >= ARRAY_SIZE(attributes) ||
	    !attributes[attribute].get)
		return CUDA_ERROR_INVALID_VALUE;
	if (!range || range->freeing)
		return CUDA_ERROR_INVALID_VALUE;
	result = attributes[attribute].get(range, address, &value);
	if (!result)
		memcpy(ret, &value, attributes[attribute].size);
	return result;
}
