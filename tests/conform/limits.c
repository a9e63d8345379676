/* SPDX-License-Identifier: MIT */
/*
 * The limit of device memory, and its return after a free. These tests measure all memory
 * of the device, so they form a separate program that runs alone, test by test.
 */
#include "conform.h"

SUITE(limits);

#define WRITE CU_MEM_ACCESS_FLAGS_PROT_READWRITE
#define SIZE  (256 * MIB)

Test(limits, allocation_takes_whole_granules_and_free_gives_them_back)
{
	size_t before, during;
	CUdeviceptr at;

	conform_context();
	OK(cuMemAlloc_v2, &at, SIZE);
	OK(cuMemFree_v2, at);
	before = memory_free();
	OK(cuMemAlloc_v2, &at, SIZE);
	during = memory_free();
	cr_assert_eq(before - during, SIZE);
	OK(cuMemFree_v2, at);
	cr_assert_eq(memory_free(), before);
}

Test(limits, handle_takes_its_size_without_being_mapped)
{
	CUmemGenericAllocationHandle handle;
	size_t before;

	conform_context();
	before = memory_free();
	handle = memory_create(SIZE);
	cr_assert_eq(before - memory_free(), SIZE);
	OK(cuMemRelease, handle);
	cr_assert_eq(memory_free(), before);
}

Test(limits, memory_goes_with_the_last_of_handle_mapping_and_descriptor)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	size_t before;
	int fd;

	conform_context();
	at = address_reserve(SIZE, 0);
	before = memory_free();
	handle = memory_create(SIZE);
	memory_map(at, SIZE, handle, WRITE);
	fd = memory_export(handle);
	OK(cuMemRelease, handle);
	cr_assert_eq(before - memory_free(), SIZE);
	OK(cuMemUnmap, at, SIZE);
	cr_assert_eq(before - memory_free(), SIZE);
	close(fd);
	cr_assert(memory_comes_back(before));
}

Test(limits, full_device_refuses_and_has_room_again)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemGenericAllocationHandle most, handle;
	size_t before;
	CUdeviceptr at;

	conform_context();
	before = memory_free();
	OK(cuMemCreate, &most, (before - before / 8) & ~(2 * MIB - 1), &prop, 0);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate, &handle,
	      (before / 4) & ~(2 * MIB - 1), &prop, 0);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2, &at, before / 4);
	OK(cuMemRelease, most);
	OK(cuMemCreate, &handle, (before / 4) & ~(2 * MIB - 1), &prop, 0);
	OK(cuMemRelease, handle);
}

static void take_and_stay(int socket)
{
	CUmemGenericAllocationHandle handle;

	conform_open();
	handle = memory_create(SIZE);
	wire_send(socket, 0, memory_export(handle));
	wire_receive(socket, NULL);
}

static void take_mapped_and_stay(int socket)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;

	conform_context();
	handle = memory_create(SIZE);
	memory_map(address_reserve(SIZE, 0), SIZE, handle, WRITE);
	OK(cuMemRelease, handle);
	OK(cuMemAlloc_v2, &at, SIZE);
	wire_send(socket, 0, -1);
	wire_receive(socket, NULL);
}

Test(limits, memory_of_a_killed_process_comes_back)
{
	struct child child;
	size_t before;

	child_start(&child, take_mapped_and_stay);
	wire_receive(child.socket, NULL);
	conform_context();
	before = memory_free();
	child_kill(&child);
	cr_assert(memory_comes_back(before + 2 * SIZE));
}

Test(limits, exported_memory_stays_till_the_last_descriptor_closes)
{
	struct child child;
	size_t before;
	int fd;

	child_start(&child, take_and_stay);
	wire_receive(child.socket, &fd);
	conform_context();
	before = memory_free();
	child_kill(&child);
	cr_assert_leq(memory_free(), before + SIZE / 2);
	close(fd);
	cr_assert(memory_comes_back(before + SIZE));
}
