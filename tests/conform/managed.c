/* SPDX-License-Identifier: MIT */
/* Managed memory: made, attached, used by copies and fills, freed. */
#include "managed.h"
#include "conform.h"
#include "ptx.h"

#include <string.h>

SUITE(managed);
SUITE(attach);

CUdeviceptr managed_new(size_t size)
{
	CUdeviceptr at;

	OK(cuMemAllocManaged, &at, size, CU_MEM_ATTACH_GLOBAL);
	return at;
}

void managed_need_concurrent(void)
{
	int value;

	OK(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
	   0);
	if (!value)
		cr_skip_test("the device lacks concurrent managed access");
}

CUdeviceptr managed_begin(size_t size)
{
	conform_context();
	managed_need_concurrent();
	return managed_new(size);
}

void managed_need_locations(void)
{
	if (!driver->fn_cuMemPrefetchAsync_v2 || !driver->fn_cuMemAdvise_v2)
		cr_skip_test("the driver knows no locations");
}

int managed_number(CUmem_range_attribute attribute, CUdeviceptr at, size_t size)
{
	int value = -1000;

	OK(cuMemRangeGetAttribute, &value, sizeof(value), attribute, at, size);
	return value;
}

bool managed_refuses(CUresult result)
{
	return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_DEVICE;
}

static CUstream stream_new(void)
{
	CUstream stream;

	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	return stream;
}

static uint32_t *words_at(CUdeviceptr at)
{
	return (uint32_t *)(uintptr_t)at;
}

Test(managed, is_supported_by_the_device)
{
	int value;

	conform_open();
	OK(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0);
	cr_assert_eq(value, 1);
}

Test(managed, memory_is_at_one_address_for_the_program_and_the_device)
{
	CUdeviceptr at;

	conform_context();
	at = managed_new(MIB);
	words_at(at)[1000] = 77;
	OK(cuMemsetD32_v2, at, 5, 1000);
	OK(cuCtxSynchronize);
	cr_assert_eq(words_at(at)[0], 5);
	cr_assert_eq(words_at(at)[999], 5);
	cr_assert_eq(words_at(at)[1000], 77);
}

Test(managed, memory_of_any_size_is_given)
{
	static const size_t sizes[] = { 1, 17, 4096, 5000, 3 * MIB + 1, 64 * MIB };

	conform_context();
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		const CUdeviceptr at = managed_new(sizes[i]);

		*(unsigned char *)(uintptr_t)(at + sizes[i] - 1) = 3;
		OK(cuMemFree_v2, at);
	}
}

Test(managed, fresh_memory_is_zeros)
{
	CUdeviceptr at;

	conform_context();
	for (int i = 0; i < 3; i++) {
		at = managed_new(4 * MIB);
		cr_assert(words_are_zero(at, MIB));
		OK(cuMemsetD8_v2, at, 0xff, 4 * MIB);
		OK(cuCtxSynchronize);
		OK(cuMemFree_v2, at);
	}
}

Test(managed, bad_requests_are_refused)
{
	CUdeviceptr at;

	conform_context();
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged, NULL, MIB,
	      CU_MEM_ATTACH_GLOBAL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged, &at, 0, CU_MEM_ATTACH_GLOBAL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged, &at, MIB, 0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged, &at, MIB,
	      CU_MEM_ATTACH_SINGLE);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged, &at, MIB,
	      CU_MEM_ATTACH_GLOBAL | CU_MEM_ATTACH_HOST);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged, &at, MIB, 1000);
}

Test(managed, needs_a_context)
{
	CUdeviceptr at;

	conform_open();
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemAllocManaged, &at, MIB,
	      CU_MEM_ATTACH_GLOBAL);
}

/* An allocation is only addresses at first; hardware grants more of these than memory. */
Test(managed, more_than_there_are_addresses_is_out_of_memory)
{
	CUdeviceptr at;

	conform_context();
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocManaged, &at, (size_t)1 << 48,
	      CU_MEM_ATTACH_GLOBAL);
	at = managed_new(MIB);
	OK(cuMemFree_v2, at);
}

Test(managed, memory_is_freed_once_and_by_its_first_address)
{
	CUdeviceptr at;

	conform_context();
	at = managed_new(4 * MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2, at + MIB);
	OK(cuMemFree_v2, at);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2, at);
}

Test(managed, free_waits_for_what_uses_the_memory)
{
	struct gate gate;
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	gate_init(&gate);
	stream = stream_new();
	at = managed_new(8 * MIB);
	OK(cuLaunchHostFunc, stream, gate_wait, &gate);
	OK(cuMemsetD8Async, at, 1, 8 * MIB, stream);
	gate_open(&gate);
	OK(cuMemFree_v2, at);
	OK(cuStreamQuery, stream);
}

Test(managed, pointer_tells_what_it_is)
{
	CUdeviceptr at, told;
	int value = -1;
	void *host;
	size_t size;

	conform_context();
	at = managed_new(5000);
	OK(cuPointerGetAttribute, &value, CU_POINTER_ATTRIBUTE_IS_MANAGED, at + 17);
	cr_assert_eq(value, 1);
	OK(cuPointerGetAttribute, &value, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
	cr_assert_eq(value, 0);
	OK(cuPointerGetAttribute, &told, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at + 17);
	cr_assert_eq(told, at + 17);
	OK(cuPointerGetAttribute, &host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at + 17);
	cr_assert_eq((CUdeviceptr)(uintptr_t)host, at + 17);
	OK(cuMemGetAddressRange_v2, &told, &size, at + 17);
	cr_assert_eq(told, at);
	cr_assert_geq(size, 5000);
	OK(cuMemFree_v2, at);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute, &value,
	      CU_POINTER_ATTRIBUTE_IS_MANAGED, at);
}

Test(managed, memory_is_copied_in_all_directions)
{
	const size_t n = MIB;
	CUdeviceptr managed, other, device;

	conform_context();
	managed = managed_new(n * 4);
	other = managed_new(n * 4);
	OK(cuMemAlloc_v2, &device, n * 4);
	words_write(managed, 10, n);
	cr_assert(words_match(managed, 10, n));
	cr_assert_eq(words_at(managed)[n - 1], 10 + n - 1);
	OK(cuMemcpyDtoD_v2, device, managed, n * 4);
	OK(cuMemcpyDtoD_v2, other, device, n * 4);
	OK(cuCtxSynchronize);
	cr_assert_eq(memcmp(words_at(other), words_at(managed), n * 4), 0);
	OK(cuMemcpyHtoD_v2, device, words_at(managed) + 1, 4);
	cr_assert(words_match(device, 11, 1));
	OK(cuMemcpyDtoH_v2, words_at(other), device + 4 * 7, 4);
	cr_assert_eq(words_at(other)[0], 17);
	OK(cuMemcpy, other + 4, managed + 4 * 100, 4);
	OK(cuCtxSynchronize);
	cr_assert_eq(words_at(other)[1], 110);
}

Test(managed, memory_is_used_in_a_streams_order)
{
	CUdeviceptr at, to;
	CUstream stream;

	conform_context();
	stream = stream_new();
	at = managed_new(8 * MIB);
	to = managed_new(8 * MIB);
	OK(cuMemsetD32Async, at, 3, 2 * MIB, stream);
	OK(cuMemcpyDtoDAsync_v2, to, at, 8 * MIB, stream);
	OK(cuMemsetD32Async, at, 4, 2 * MIB, stream);
	OK(cuStreamSynchronize, stream);
	cr_assert_eq(words_at(to)[0], 3);
	cr_assert_eq(words_at(to)[2 * MIB - 1], 3);
	cr_assert_eq(words_at(at)[0], 4);
}

Test(managed, memory_is_what_kernels_see_and_the_program_too)
{
	CUfunction poke, peek;
	CUdeviceptr at, to;
	CUmodule module;
	uint32_t value = 77;

	conform_context();
	OK(cuModuleLoadDataEx, &module, PTX_ALL, 0, NULL, NULL);
	OK(cuModuleGetFunction, &poke, module, "poke");
	OK(cuModuleGetFunction, &peek, module, "peek");
	at = managed_new(8 * MIB);
	to = at + 4 * MIB;
	words_at(at)[0] = 1;
	OK(cuLaunchKernel, poke, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){ &at, &value },
	   NULL);
	OK(cuLaunchKernel, peek, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){ &at, &to }, NULL);
	OK(cuCtxSynchronize);
	cr_assert_eq(words_at(at)[0], 77);
	cr_assert_eq(words_at(to)[0], 77);
}

Test(managed, fill_past_the_end_is_refused)
{
	CUdeviceptr at;

	conform_context();
	at = managed_new(64 * MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2, at + 63 * MIB, 0, 128 * MIB);
}

Test(managed, memory_of_the_context_ends_with_it)
{
	CUcontext context = conform_context();
	CUdeviceptr at = managed_new(MIB);
	int value;

	OK(cuDevicePrimaryCtxReset_v2, 0);
	OK(cuDevicePrimaryCtxRetain, &context, 0);
	OK(cuCtxSetCurrent, context);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute, &value,
	      CU_POINTER_ATTRIBUTE_IS_MANAGED, at);
}

Test(managed, memory_can_be_used_by_every_device)
{
	CUcontext second;
	CUdeviceptr at;

	conform_context();
	conform_need_devices(2);
	managed_need_concurrent();
	at = managed_new(4 * MIB);
	OK(cuMemsetD32_v2, at, 1, MIB);
	OK(cuCtxSynchronize);
	OK(cuDevicePrimaryCtxRetain, &second, 1);
	OK(cuCtxSetCurrent, second);
	OK(cuMemsetD32_v2, at, 2, MIB / 2);
	OK(cuCtxSynchronize);
	cr_assert_eq(words_at(at)[0], 2);
	cr_assert_eq(words_at(at)[MIB - 1], 1);
}

Test(attach, to_the_host_at_first_and_to_all_later)
{
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	stream = stream_new();
	OK(cuMemAllocManaged, &at, MIB, CU_MEM_ATTACH_HOST);
	OK(cuStreamAttachMemAsync, stream, at, 0, CU_MEM_ATTACH_GLOBAL);
	OK(cuStreamSynchronize, stream);
	OK(cuMemsetD8_v2, at, 1, MIB);
	OK(cuStreamAttachMemAsync, NULL, at, MIB, CU_MEM_ATTACH_HOST);
	OK(cuCtxSynchronize);
}

Test(attach, to_one_stream_lasts_no_longer_than_it)
{
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	stream = stream_new();
	at = managed_new(MIB);
	OK(cuStreamAttachMemAsync, stream, at, 0, CU_MEM_ATTACH_SINGLE);
	OK(cuMemsetD8Async, at, 1, MIB, stream);
	OK(cuStreamSynchronize, stream);
	OK(cuStreamDestroy_v2, stream);
	OK(cuMemsetD8_v2, at, 2, MIB);
	OK(cuCtxSynchronize);
	OK(cuMemFree_v2, at);
}

Test(attach, to_no_stream_alone_is_refused)
{
	CUdeviceptr at;

	conform_context();
	at = managed_new(MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync, NULL, at, 0,
	      CU_MEM_ATTACH_SINGLE);
}

Test(attach, of_a_part_is_refused)
{
	CUstream stream;
	CUdeviceptr at;

	conform_context();
	stream = stream_new();
	at = managed_new(4 * MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync, stream, at, MIB,
	      CU_MEM_ATTACH_GLOBAL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync, stream, at, 8 * MIB,
	      CU_MEM_ATTACH_GLOBAL);
	OK(cuStreamAttachMemAsync, stream, at, 4 * MIB, CU_MEM_ATTACH_GLOBAL);
}

Test(attach, of_what_is_not_managed_is_refused)
{
	CUdeviceptr device;
	CUstream stream;

	conform_context();
	stream = stream_new();
	OK(cuMemAlloc_v2, &device, MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync, stream, device, 0,
	      CU_MEM_ATTACH_GLOBAL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync, stream, 0, 0,
	      CU_MEM_ATTACH_GLOBAL);
}
