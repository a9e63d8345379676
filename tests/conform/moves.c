/* SPDX-License-Identifier: MIT */
/*
 * Operations that move the pages of managed memory, observed through the device's free
 * memory. So these tests belong to the program that runs alone.
 *
 * Except for fresh memory, the tests need the software GPU. On hardware (an H200, CUDA
 * 13.0) a prefetch of 64 MiB does not lower free memory by 64 MiB, and only the time of
 * the next use shows where pages are.
 */
#include "conform.h"

#include <dlfcn.h>
#include <string.h>

SUITE(moves);

#define SIZE (64 * MIB)

static CUdeviceptr at;
static size_t before; /* free device memory with all pages of `at` on the host */

static void prefetch(CUdevice device)
{
	OK(cuMemPrefetchAsync, at, SIZE, device, NULL);
	OK(cuCtxSynchronize);
}

static void (*declare_access)(const void *, size_t, int);

/*
 * A write by the program. The software GPU can't see such accesses; tests declare them
 * through a function of the software GPU.
 */
static void host_write(void)
{
	declare_access((const void *)(uintptr_t)at, SIZE, true);
	memset((void *)(uintptr_t)at, 1, SIZE);
}

/* Uses everything once, so that first-use allocations don't disturb the figures. */
static void begin(void)
{
	int value;

	conform_context();
	declare_access = (void (*)(const void *, size_t, int))dlsym(
		driver->library, "softgpu_host_access");
	if (!declare_access)
		cr_skip_test("free memory doesn't tell where managed memory is");
	OK(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
	   0);
	if (!value)
		cr_skip_test("the device lacks concurrent managed access");
	OK(cuMemAllocManaged, &at, SIZE, CU_MEM_ATTACH_GLOBAL);
	host_write();
	prefetch(0);
	prefetch(CU_DEVICE_CPU);
	before = memory_free();
}

static bool is_on_device(void)
{
	return memory_free() + SIZE <= before;
}

static void copy_all(bool write)
{
	_cleanup_free_ unsigned char *bytes = calloc(1, SIZE);

	if (write)
		OK(cuMemcpyHtoD_v2, at, bytes, SIZE);
	else
		OK(cuMemcpyDtoH_v2, bytes, at, SIZE);
	OK(cuCtxSynchronize);
}

Test(moves, fresh_memory_takes_none_of_the_device)
{
	size_t full;

	conform_context();
	full = memory_free();
	OK(cuMemAllocManaged, &at, SIZE, CU_MEM_ATTACH_GLOBAL);
	cr_assert_gt(memory_free() + SIZE, full);
}

Test(moves, prefetch_takes_the_memory_and_gives_it_back)
{
	begin();
	prefetch(0);
	cr_assert(is_on_device());
	prefetch(CU_DEVICE_CPU);
	cr_assert(memory_comes_back(before));
	prefetch(0);
	cr_assert(is_on_device());
	OK(cuMemFree_v2, at);
	cr_assert(memory_comes_back(before));
}

Test(moves, fill_brings_pages_to_the_device)
{
	begin();
	OK(cuMemsetD8_v2, at, 1, SIZE);
	OK(cuCtxSynchronize);
	cr_assert(is_on_device());
}

Test(moves, program_brings_pages_to_the_host)
{
	begin();
	prefetch(0);
	host_write();
	cr_assert(memory_comes_back(before));
}

Test(moves, reading_copy_leaves_pages_on_the_device)
{
	begin();
	prefetch(0);
	copy_all(false);
	cr_assert(is_on_device());
}

Test(moves, writing_copy_leaves_pages_on_the_device)
{
	begin();
	prefetch(0);
	copy_all(true);
	cr_assert(is_on_device());
}

/* (On hardware, the short time of the next prefetch shows the same.) */
Test(moves, reading_copy_pulls_pages_of_the_host)
{
	begin();
	copy_all(false);
	cr_assert(is_on_device());
}

Test(moves, writing_copy_pulls_pages_of_the_host)
{
	begin();
	copy_all(true);
	cr_assert(is_on_device());
}
