/* SPDX-License-Identifier: MIT */
/* Device memory: cuMemAlloc, pools, host memory, attributes of pointers. */
#include "conform.h"

#include <string.h>
#include <sys/mman.h>

SUITE(memory);
SUITE(pool);
SUITE(host);
SUITE(pointer);

static CUdeviceptr memory_new(size_t size)
{
	CUdeviceptr at;

	OK(cuMemAlloc_v2, &at, size);
	return at;
}

Test(memory, of_size_zero_is_refused)
{
	CUdeviceptr at;

	conform_context();
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2, &at, 0);
}

Test(memory, is_aligned_to_256_bytes)
{
	conform_context();
	for (size_t size = 1; size < 4 * MIB; size = size * 3 + 1)
		cr_assert_eq(memory_new(size) % 256, 0);
}

Test(memory, pieces_do_not_overlap)
{
	CUdeviceptr at[16];

	conform_context();
	for (uint32_t i = 0; i < ARRAY_SIZE(at); i++) {
		at[i] = memory_new(1000 * sizeof(uint32_t));
		words_write(at[i], i * 1000, 1000);
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(at); i++)
		cr_assert(words_match(at[i], i * 1000, 1000));
}

Test(memory, is_zero_though_it_was_used_before)
{
	static const size_t sizes[] = { 4096, 3 * MIB, 64 * MIB };

	conform_context();
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		CUdeviceptr at = memory_new(sizes[i]);

		OK(cuMemsetD8_v2, at, 0xff, sizes[i]);
		OK(cuMemFree_v2, at);
		at = memory_new(sizes[i]);
		cr_assert(words_are_zero(at, sizes[i] / 4), "%zu bytes", sizes[i]);
		OK(cuMemFree_v2, at);
	}
}

Test(memory, more_than_there_is_is_refused_and_nothing_breaks)
{
	CUdeviceptr at;
	size_t total;

	conform_context();
	OK(cuDeviceTotalMem_v2, &total, 0);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2, &at, total + 2 * MIB);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2, &at, (size_t)1 << 62);
	words_write(memory_new(4096), 1, 1024);
}

Test(memory, free_of_null_does_nothing)
{
	conform_context();
	OK(cuMemFree_v2, 0);
}

Test(memory, is_freed_once_and_by_its_start)
{
	CUdeviceptr at;

	conform_context();
	at = memory_new(MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2, at + 256);
	OK(cuMemFree_v2, at);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2, at);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2, 0x123456000);
}

Test(memory, range_is_told_from_inside)
{
	CUdeviceptr at, base;
	size_t size;

	conform_context();
	at = memory_new(5000);
	OK(cuMemGetAddressRange_v2, &base, &size, at + 4999);
	cr_assert_eq(base, at);
	cr_assert_eq(size, 5000);
	OK(cuMemGetAddressRange_v2, NULL, &size, at);
	OK(cuMemFree_v2, at);
	FAILS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange_v2, &base, &size, 0x123456000);
}

Test(memory, free_and_total_make_sense)
{
	size_t free_bytes, total, device_total;

	conform_context();
	OK(cuMemGetInfo_v2, &free_bytes, &total);
	OK(cuDeviceTotalMem_v2, &device_total, 0);
	cr_assert_leq(free_bytes, total);
	cr_assert_eq(total, device_total);
}

static CUstream stream_new(void)
{
	CUstream stream;

	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	return stream;
}

Test(pool, gives_memory_in_the_order_of_a_stream)
{
	CUstream stream;
	CUdeviceptr at;
	void *host;

	conform_context();
	stream = stream_new();
	OK(cuMemHostAlloc, &host, MIB, 0);
	OK(cuMemAllocAsync, &at, MIB, stream);
	OK(cuMemsetD32Async, at, 7, MIB / 4, stream);
	OK(cuMemcpyDtoHAsync_v2, host, at, MIB, stream);
	OK(cuMemFreeAsync, at, stream);
	OK(cuStreamSynchronize, stream);
	cr_assert_eq(((uint32_t *)host)[MIB / 4 - 1], 7);
}

Test(pool, more_than_there_is_is_refused_and_nothing_breaks)
{
	CUstream stream;
	CUdeviceptr at;
	size_t total;

	conform_context();
	stream = stream_new();
	OK(cuDeviceTotalMem_v2, &total, 0);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync, &at, total + 2 * MIB, stream);
	OK(cuMemAllocAsync, &at, MIB, stream);
	OK(cuMemFreeAsync, at, stream);
	OK(cuStreamSynchronize, stream);
}

Test(pool, memory_is_freed_once)
{
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	stream = stream_new();
	OK(cuMemAllocAsync, &at, MIB, stream);
	OK(cuMemFreeAsync, at, stream);
	OK(cuStreamSynchronize, stream);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync, at, stream);
}

Test(pool, memory_may_be_freed_by_cuMemFree)
{
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	stream = stream_new();
	OK(cuMemAllocAsync, &at, MIB, stream);
	OK(cuStreamSynchronize, stream);
	OK(cuMemFree_v2, at);
}

Test(pool, default_one_belongs_to_the_device)
{
	CUmemoryPool pool, current;

	conform_context();
	OK(cuDeviceGetDefaultMemPool, &pool, 0);
	OK(cuDeviceGetMemPool, &current, 0);
	cr_assert_eq(pool, current);
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetDefaultMemPool, &pool, 1000);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy, current);
}

Test(pool, keeps_memory_up_to_its_threshold)
{
	uint64_t threshold = 64 * MIB, reserved, used;
	CUmemoryPool pool;
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	stream = stream_new();
	OK(cuDeviceGetDefaultMemPool, &pool, 0);
	OK(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
	threshold = 0;
	OK(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
	cr_assert_eq(threshold, 64 * MIB);

	OK(cuMemAllocAsync, &at, 8 * MIB, stream);
	OK(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
	cr_assert_geq(used, 8 * MIB);
	OK(cuMemFreeAsync, at, stream);
	OK(cuStreamSynchronize, stream);
	OK(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
	OK(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
	cr_assert_geq(reserved, 8 * MIB);
	cr_assert_eq(used, 0);

	OK(cuMemPoolTrimTo, pool, 0);
	OK(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
	cr_assert_eq(reserved, 0);
}

Test(pool, gives_all_back_when_the_threshold_is_zero)
{
	CUmemoryPool pool;
	uint64_t reserved;
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	stream = stream_new();
	OK(cuDeviceGetDefaultMemPool, &pool, 0);
	OK(cuMemAllocAsync, &at, 8 * MIB, stream);
	OK(cuMemFreeAsync, at, stream);
	OK(cuStreamSynchronize, stream);
	OK(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
	cr_assert_eq(reserved, 0);
}

Test(pool, of_ones_own_serves_and_goes)
{
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemoryPool pool, of_pointer;
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	stream = stream_new();
	OK(cuMemPoolCreate, &pool, &props);
	OK(cuMemAllocFromPoolAsync, &at, MIB, pool, stream);
	OK(cuMemsetD8Async, at, 1, MIB, stream);
	OK(cuStreamSynchronize, stream);
	OK(cuPointerGetAttribute, &of_pointer, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at);
	cr_assert_eq(of_pointer, pool);
	OK(cuMemFreeAsync, at, stream);
	OK(cuStreamSynchronize, stream);
	OK(cuMemPoolDestroy, pool);
}

static void *shared_new(size_t size)
{
	int fd = memfd_create("conform", MFD_CLOEXEC);
	void *at;

	MUST(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(at != MAP_FAILED);
	close(fd);
	return at;
}

Test(host, allocated_memory_is_reached_by_the_device)
{
	CUdeviceptr at, device;
	uint32_t *host;

	conform_context();
	at = memory_new(MIB);
	OK(cuMemHostAlloc, (void **)&host, MIB, CU_MEMHOSTALLOC_PORTABLE);
	OK(cuMemHostGetDevicePointer_v2, &device, host, 0);
	cr_assert_eq(device, (CUdeviceptr)(uintptr_t)host);
	OK(cuMemsetD32_v2, device, 9, MIB / 4);
	OK(cuCtxSynchronize);
	cr_assert_eq(host[MIB / 4 - 1], 9);
	OK(cuMemcpyDtoD_v2, at, device, MIB);
	OK(cuMemFreeHost, host);
}

Test(host, memfd_is_registered_and_reached_by_the_device)
{
	CUdeviceptr device;
	uint32_t *host;

	conform_context();
	host = shared_new(4 * MIB);
	OK(cuMemHostRegister_v2, host, 4 * MIB,
	   CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
	OK(cuMemHostGetDevicePointer_v2, &device, host, 0);
	cr_assert_eq(device, (CUdeviceptr)(uintptr_t)host);
	OK(cuMemsetD32_v2, device, 3, MIB);
	OK(cuCtxSynchronize);
	cr_assert_eq(host[MIB - 1], 3);
	OK(cuMemHostUnregister, host);
	cr_assert_eq(host[0], 3);
}

Test(host, memory_is_registered_once)
{
	void *host;

	conform_context();
	host = shared_new(4 * MIB);
	OK(cuMemHostRegister_v2, host, 4 * MIB, 0);
	FAILS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2, host,
	      4 * MIB, 0);
	OK(cuMemHostUnregister, host);
	FAILS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister, host);
}

Test(host, memory_that_is_not_there_is_not_registered)
{
	void *host;

	conform_context();
	host = shared_new(4 * MIB);
	munmap(host, 4 * MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2, host, 4 * MIB, 0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2, NULL, MIB, 0);
}

Test(host, what_was_not_allocated_is_not_freed)
{
	void *host;

	conform_context();
	host = shared_new(MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost, host);
}

static int pointer_number(CUpointer_attribute attribute, CUdeviceptr at)
{
	unsigned int value = 1000;

	OK(cuPointerGetAttribute, &value, attribute, at);
	return (int)value;
}

Test(pointer, of_device_memory_tells_what_it_is)
{
	CUcontext context = conform_context();
	CUcontext of_pointer;
	CUdeviceptr at = memory_new(5000);
	CUdeviceptr start;
	size_t size;

	cr_assert_eq(pointer_number(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 17),
		     CU_MEMORYTYPE_DEVICE);
	cr_assert_eq(pointer_number(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at), 0);
	cr_assert_eq(pointer_number(CU_POINTER_ATTRIBUTE_IS_MANAGED, at), 0);
	OK(cuPointerGetAttribute, &of_pointer, CU_POINTER_ATTRIBUTE_CONTEXT, at);
	cr_assert_eq(of_pointer, context);
	OK(cuPointerGetAttribute, &start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at + 17);
	cr_assert_eq(start, at);
	OK(cuPointerGetAttribute, &size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at + 17);
	cr_assert_eq(size, 5000);
	OK(cuPointerGetAttribute, &start, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at + 17);
	cr_assert_eq(start, at + 17);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute, &start,
	      CU_POINTER_ATTRIBUTE_HOST_POINTER, at);
}

Test(pointer, of_host_memory_tells_what_it_is)
{
	void *host, *told;

	conform_context();
	OK(cuMemHostAlloc, &host, MIB, 0);
	cr_assert_eq(pointer_number(CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				    (CUdeviceptr)(uintptr_t)host),
		     CU_MEMORYTYPE_HOST);
	OK(cuPointerGetAttribute, &told, CU_POINTER_ATTRIBUTE_HOST_POINTER,
	   (CUdeviceptr)(uintptr_t)host);
	cr_assert_eq(told, host);
}

Test(pointer, of_the_programs_own_memory_is_unknown)
{
	int on_the_stack, type;

	conform_context();
	FAILS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute, &type,
	      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&on_the_stack);
}

Test(pointer, ids_are_not_used_again)
{
	unsigned long long first, second;
	CUdeviceptr at;

	conform_context();
	at = memory_new(MIB);
	OK(cuPointerGetAttribute, &first, CU_POINTER_ATTRIBUTE_BUFFER_ID, at);
	OK(cuMemFree_v2, at);
	at = memory_new(MIB);
	OK(cuPointerGetAttribute, &second, CU_POINTER_ATTRIBUTE_BUFFER_ID, at);
	cr_assert_neq(first, second);
}
