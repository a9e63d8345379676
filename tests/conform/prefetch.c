/* SPDX-License-Identifier: MIT */
/* Prefetches, and the driver's reports about them. */
#include "conform.h"
#include "managed.h"

SUITE(prefetch);

#define PAGE ((size_t)4096)

static const CUmemLocation device_0 = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
static const CUmemLocation device_1 = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 };
static const CUmemLocation host = { .type = CU_MEM_LOCATION_TYPE_HOST };
static const CUmemLocation node_0 = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA };

static int prefetched(CUdeviceptr at, size_t size)
{
	return managed_number(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, size);
}

static int prefetched_type(CUdeviceptr at, size_t size)
{
	return managed_number(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE, at,
			      size);
}

static int prefetched_id(CUdeviceptr at, size_t size)
{
	return managed_number(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID, at, size);
}

static void words_set(CUdeviceptr at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint32_t *)(uintptr_t)at)[i] = (uint32_t)i;
}

static bool words_are_set(CUdeviceptr at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((uint32_t *)(uintptr_t)at)[i] != i)
			return false;
	return true;
}

Test(prefetch, keeps_the_contents_there_and_back)
{
	const CUdeviceptr at = managed_begin(8 * MIB);

	words_set(at, 2 * MIB);
	OK(cuMemPrefetchAsync, at, 8 * MIB, 0, NULL);
	OK(cuCtxSynchronize);
	cr_assert(words_match(at, 0, 2 * MIB));
	OK(cuMemPrefetchAsync, at, 8 * MIB, CU_DEVICE_CPU, NULL);
	OK(cuCtxSynchronize);
	cr_assert(words_are_set(at, 2 * MIB));
}

Test(prefetch, is_told_as_the_last_one)
{
	const CUdeviceptr at = managed_begin(4 * MIB);

	cr_assert_eq(prefetched(at, 4 * MIB), CU_DEVICE_INVALID);
	OK(cuMemPrefetchAsync, at, 4 * MIB, 0, NULL);
	cr_assert_eq(prefetched(at, 4 * MIB), 0);
	OK(cuMemPrefetchAsync, at, 4 * MIB, CU_DEVICE_CPU, NULL);
	cr_assert_eq(prefetched(at, 4 * MIB), CU_DEVICE_CPU);
	OK(cuCtxSynchronize);
	cr_assert_eq(prefetched(at, 4 * MIB), CU_DEVICE_CPU);
}

Test(prefetch, is_told_whatever_uses_the_memory_later)
{
	const CUdeviceptr at = managed_begin(4 * MIB);

	OK(cuMemPrefetchAsync, at, 4 * MIB, 0, NULL);
	OK(cuCtxSynchronize);
	words_set(at, MIB);
	cr_assert_eq(prefetched(at, 4 * MIB), 0);
}

Test(prefetch, of_a_part_is_told_for_it)
{
	const CUdeviceptr at = managed_begin(8 * MIB);

	OK(cuMemPrefetchAsync, at + 2 * MIB, 4 * MIB, 0, NULL);
	cr_assert_eq(prefetched(at, 8 * MIB), CU_DEVICE_INVALID);
	cr_assert_eq(prefetched(at, 2 * MIB), CU_DEVICE_INVALID);
	cr_assert_eq(prefetched(at + 2 * MIB, 4 * MIB), 0);
	cr_assert_eq(prefetched(at + 6 * MIB, 2 * MIB), CU_DEVICE_INVALID);
	OK(cuMemPrefetchAsync, at, 2 * MIB, CU_DEVICE_CPU, NULL);
	cr_assert_eq(prefetched(at, 2 * MIB), CU_DEVICE_CPU);
	cr_assert_eq(prefetched(at, 4 * MIB), CU_DEVICE_INVALID);
	OK(cuCtxSynchronize);
}

Test(prefetch, is_for_whole_pages)
{
	const CUdeviceptr at = managed_begin(3 * PAGE);

	OK(cuMemPrefetchAsync, at + PAGE / 2, PAGE, 0, NULL);
	cr_assert_eq(prefetched(at, 2 * PAGE), 0);
	cr_assert_eq(prefetched(at + 2 * PAGE, 1), CU_DEVICE_INVALID);
	cr_assert_eq(prefetched(at, 3 * PAGE), CU_DEVICE_INVALID);
	OK(cuCtxSynchronize);
}

Test(prefetch, is_in_the_order_of_its_stream)
{
	const CUdeviceptr at = managed_begin(4 * MIB);
	struct gate gate;
	CUstream stream;

	gate_init(&gate);
	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	OK(cuLaunchHostFunc, stream, gate_wait, &gate);
	OK(cuMemPrefetchAsync, at, 4 * MIB, 0, stream);
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery, stream);
	gate_open(&gate);
	OK(cuStreamSynchronize, stream);
}

Test(prefetch, to_a_location_is_told_with_type_and_id)
{
	const CUdeviceptr at = managed_begin(4 * MIB);

	managed_need_locations();
	cr_assert_eq(prefetched_type(at, 4 * MIB), CU_MEM_LOCATION_TYPE_INVALID);
	OK(cuMemPrefetchAsync_v2, at, 4 * MIB, device_0, 0, NULL);
	cr_assert_eq(prefetched_type(at, 4 * MIB), CU_MEM_LOCATION_TYPE_DEVICE);
	cr_assert_eq(prefetched_id(at, 4 * MIB), 0);
	OK(cuMemPrefetchAsync_v2, at, 4 * MIB, host, 0, NULL);
	cr_assert_eq(prefetched_type(at, 4 * MIB), CU_MEM_LOCATION_TYPE_HOST);
	cr_assert_eq(prefetched(at, 4 * MIB), CU_DEVICE_CPU);
	OK(cuMemPrefetchAsync_v2, at, 2 * MIB, device_0, 0, NULL);
	cr_assert_eq(prefetched_type(at, 4 * MIB), CU_MEM_LOCATION_TYPE_INVALID);
	OK(cuCtxSynchronize);
}

Test(prefetch, to_a_node_of_the_host_is_told_by_its_number)
{
	const CUdeviceptr at = managed_begin(4 * MIB);

	managed_need_locations();
	words_set(at, MIB);
	OK(cuMemPrefetchAsync_v2, at, 4 * MIB, node_0, 0, NULL);
	cr_assert_eq(prefetched_type(at, 4 * MIB), CU_MEM_LOCATION_TYPE_HOST_NUMA);
	cr_assert_eq(prefetched_id(at, 4 * MIB), 0);
	OK(cuCtxSynchronize);
	cr_assert(words_are_set(at, MIB));
}

Test(prefetch, to_the_second_device_goes_there)
{
	const CUdeviceptr at = managed_begin(4 * MIB);

	conform_need_devices(2);
	managed_need_locations();
	words_set(at, MIB);
	OK(cuMemPrefetchAsync, at, 2 * MIB, 1, NULL);
	OK(cuMemPrefetchAsync_v2, at + 2 * MIB, 2 * MIB, device_1, 0, NULL);
	OK(cuCtxSynchronize);
	cr_assert_eq(prefetched(at, 4 * MIB), 1);
	cr_assert_eq(prefetched_type(at, 4 * MIB), CU_MEM_LOCATION_TYPE_DEVICE);
	cr_assert_eq(prefetched_id(at, 4 * MIB), 1);
	cr_assert(words_are_set(at, MIB));
}

Test(prefetch, of_what_is_not_managed_is_refused)
{
	static uint32_t own[2 * 1024];
	CUdeviceptr device;
	void *pinned;

	managed_begin(MIB);
	OK(cuMemAlloc_v2, &device, MIB);
	OK(cuMemHostAlloc, &pinned, MIB, 0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync, device, MIB, 0, NULL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync,
	      (CUdeviceptr)(uintptr_t)pinned, MIB, 0, NULL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync, (CUdeviceptr)(uintptr_t)own,
	      sizeof(own), 0, NULL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync, 0, MIB, 0, NULL);
}

Test(prefetch, of_nothing_or_too_much_is_refused)
{
	const CUdeviceptr at = managed_begin(PAGE);

	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync, at, 0, 0, NULL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync, at, (size_t)1 << 40, 0, NULL);
	/* SIZE_MAX rounded up to whole pages overflows to 0: nothing to do. */
	OK(cuMemPrefetchAsync, at, SIZE_MAX, 0, NULL);
	OK(cuCtxSynchronize);
	cr_assert_eq(prefetched(at, PAGE), CU_DEVICE_INVALID);
}

Test(prefetch, to_no_device_is_refused)
{
	const CUdeviceptr at = managed_begin(MIB);
	CUmemLocation nowhere = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1000 };

	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync, at, MIB, CU_DEVICE_INVALID,
	      NULL);
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync, at, MIB, 1000, NULL);
	managed_need_locations();
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync_v2, at, MIB, nowhere, 0,
	      NULL);
	nowhere.id = -1;
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync_v2, at, MIB, nowhere, 0,
	      NULL);
	cr_assert_eq(prefetched(at, MIB), CU_DEVICE_INVALID);
}

Test(prefetch, to_no_location_is_refused)
{
	const CUdeviceptr at = managed_begin(MIB);
	CUmemLocation nowhere = { .type = CU_MEM_LOCATION_TYPE_INVALID };

	managed_need_locations();
	cr_assert(managed_refuses(
		driver->fn_cuMemPrefetchAsync_v2(at, MIB, nowhere, 0, NULL)));
	nowhere.type = (CUmemLocationType)77;
	cr_assert(managed_refuses(
		driver->fn_cuMemPrefetchAsync_v2(at, MIB, nowhere, 0, NULL)));
	nowhere = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 1000 };
	cr_assert(managed_refuses(
		driver->fn_cuMemPrefetchAsync_v2(at, MIB, nowhere, 0, NULL)));
	cr_assert_eq(prefetched(at, MIB), CU_DEVICE_INVALID);
}

Test(prefetch, with_flags_is_refused)
{
	const CUdeviceptr at = managed_begin(MIB);

	managed_need_locations();
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync_v2, at, MIB, device_0, 1,
	      NULL);
}
