/* SPDX-License-Identifier: MIT */
/* Managed memory of devices without concurrent managed access: no page moves. */
#include "conform.h"
#include "pages.h"

SUITE(restricted);

/* Devices without concurrent managed access. */
static CUdeviceptr begin_restricted(size_t size, unsigned int attach)
{
	CUdeviceptr at;

	conform_options("devices=2:memory=64M:concurrent=0");
	conform_context();
	OK(cuMemAllocManaged, &at, size, attach);
	return at;
}

Test(restricted, device_says_so)
{
	int value;

	conform_options("concurrent=0");
	conform_open();
	OK(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
	   0);
	cr_assert_eq(value, 0);
	OK(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0);
	cr_assert_eq(value, 1);
}

Test(restricted, memory_is_on_the_device_for_good)
{
	const CUdeviceptr at = begin_restricted(16 * PAGE, CU_MEM_ATTACH_GLOBAL);
	CUdeviceptr more;

	cr_assert_eq(where(at), DEVICE(0));
	cr_assert_eq(memory_free(), 16 * PAGE);
	host_access(at, 1, true);
	cr_assert_eq(where(at), DEVICE(0));
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocManaged, &more, 17 * PAGE,
	      CU_MEM_ATTACH_GLOBAL);
	cr_assert_eq(memory_free(), 16 * PAGE);
	OK(cuMemFree_v2, at);
	cr_assert_eq(memory_free(), 32 * PAGE);
}

Test(restricted, prefetch_and_locations_are_refused)
{
	const CUdeviceptr at = begin_restricted(PAGE, CU_MEM_ATTACH_GLOBAL);

	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync, at, PAGE, 0, NULL);
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync, at, PAGE, CPU, NULL);
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemAdvise, at, PAGE,
	      CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0);
	advise(at, PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CPU);
	advise(at, PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
}

Test(restricted, kernel_faults_on_memory_of_the_host)
{
	const CUdeviceptr at = begin_restricted(PAGE, CU_MEM_ATTACH_HOST);

	cr_assert_eq(kernel_write(at, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(restricted, kernel_uses_memory_of_the_host_once_it_is_attached)
{
	const CUdeviceptr at = begin_restricted(PAGE, CU_MEM_ATTACH_HOST);
	CUstream stream;

	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	OK(cuStreamAttachMemAsync, stream, at, 0, CU_MEM_ATTACH_SINGLE);
	cr_assert_eq(kernel_write(at, stream), CUDA_SUCCESS);
	OK(cuStreamAttachMemAsync, NULL, at, 0, CU_MEM_ATTACH_GLOBAL);
	OK(cuCtxSynchronize);
	cr_assert_eq(kernel_write(at, NULL), CUDA_SUCCESS);
}

Test(restricted, kernel_faults_on_memory_of_another_stream)
{
	const CUdeviceptr at = begin_restricted(PAGE, CU_MEM_ATTACH_GLOBAL);
	CUstream stream;

	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	OK(cuStreamAttachMemAsync, stream, at, 0, CU_MEM_ATTACH_SINGLE);
	OK(cuStreamSynchronize, stream);
	cr_assert_eq(kernel_write(at, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(restricted, attachment_goes_back_when_its_stream_is_destroyed)
{
	const CUdeviceptr at = begin_restricted(PAGE, CU_MEM_ATTACH_GLOBAL);
	CUstream stream;

	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	OK(cuStreamAttachMemAsync, stream, at, 0, CU_MEM_ATTACH_SINGLE);
	OK(cuStreamSynchronize, stream);
	OK(cuStreamDestroy_v2, stream);
	cr_assert_eq(kernel_write(at, NULL), CUDA_SUCCESS);
}
