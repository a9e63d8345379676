/* SPDX-License-Identifier: MIT */
/* Virtual memory management within a single process. */
#include "conform.h"

SUITE(reserve);
SUITE(handle);
SUITE(map);

#define SIZE  (4 * MIB)
#define WORDS (SIZE / sizeof(uint32_t))
#define NONE  CU_MEM_ACCESS_FLAGS_PROT_NONE
#define READ  CU_MEM_ACCESS_FLAGS_PROT_READ
#define WRITE CU_MEM_ACCESS_FLAGS_PROT_READWRITE
#define POSIX CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static CUmemAllocationProp prop_new(CUmemAllocationHandleType types)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = types,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
}

Test(reserve, gives_a_tebibyte_where_it_was_asked_for)
{
	conform_open();
	cr_assert_eq(address_reserve(ADDRESS_SIZE, ADDRESS), ADDRESS);
	OK(cuMemAddressFree, ADDRESS, ADDRESS_SIZE);
	cr_assert_eq(address_reserve(ADDRESS_SIZE, ADDRESS), ADDRESS);
}

Test(reserve, gives_another_address_where_the_hint_is_taken)
{
	CUdeviceptr at;

	conform_open();
	cr_assert_eq(address_reserve(SIZE, ADDRESS), ADDRESS);
	at = address_reserve(SIZE, ADDRESS);
	cr_assert_neq(at, ADDRESS);
	cr_assert(at + SIZE <= ADDRESS || at >= ADDRESS + SIZE);
}

Test(reserve, keeps_the_alignment)
{
	CUdeviceptr at;

	conform_open();
	OK(cuMemAddressReserve, &at, SIZE, 64 * MIB, 0, 0);
	cr_assert_eq(at % (64 * MIB), 0);
	cr_assert_eq(address_reserve(2 * MIB, 0) % (2 * MIB), 0);
}

Test(reserve, of_odd_or_no_size_is_refused)
{
	CUdeviceptr at;

	conform_open();
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve, &at, 0, 0, 0, 0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve, &at, 4097, 0, 0, 0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve, &at, SIZE, 3, 0, 0);
}

Test(reserve, is_freed_whole_and_once)
{
	CUdeviceptr at;

	conform_open();
	at = address_reserve(SIZE, 0);
	OK(cuMemAddressFree, at, SIZE);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree, at, SIZE);
}

Test(handle, granularity_is_2_mib)
{
	const CUmemAllocationProp prop = prop_new(POSIX);
	size_t granularity;

	conform_open();
	OK(cuMemGetAllocationGranularity, &granularity, &prop,
	   CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	cr_assert_eq(granularity, 2 * MIB);
	OK(cuMemGetAllocationGranularity, &granularity, &prop,
	   CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
	cr_assert_eq(granularity, 2 * MIB);
}

Test(handle, is_made_and_exported_without_a_context)
{
	CUmemGenericAllocationHandle handle;
	CUcontext context;

	conform_open();
	handle = memory_create(SIZE);
	close(memory_export(handle));
	OK(cuCtxGetCurrent, &context);
	cr_assert_null(context);
	OK(cuMemRelease, handle);
}

Test(handle, of_odd_or_no_size_is_refused)
{
	const CUmemAllocationProp prop = prop_new(POSIX);
	CUmemGenericAllocationHandle handle;

	conform_open();
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemCreate, &handle, 0, &prop, 0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemCreate, &handle, MIB, &prop, 0);
}

Test(handle, larger_than_the_device_is_refused)
{
	const CUmemAllocationProp prop = prop_new(POSIX);
	CUmemGenericAllocationHandle handle;
	size_t total;

	conform_open();
	OK(cuDeviceTotalMem_v2, &total, 0);
	total = align_up(total, 2 * MIB);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate, &handle, total + 2 * MIB, &prop, 0);
	OK(cuMemRelease, memory_create(SIZE));
}

Test(handle, tells_its_properties)
{
	CUmemAllocationProp prop;

	conform_open();
	OK(cuMemGetAllocationPropertiesFromHandle, &prop, memory_create(SIZE));
	cr_assert_eq(prop.type, CU_MEM_ALLOCATION_TYPE_PINNED);
	cr_assert_eq(prop.requestedHandleTypes, POSIX);
	cr_assert_eq(prop.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
	cr_assert_eq(prop.location.id, 0);
}

Test(handle, is_not_exported_unless_made_for_it)
{
	const CUmemAllocationProp prop = prop_new(CU_MEM_HANDLE_TYPE_NONE);
	CUmemGenericAllocationHandle handle;
	int fd;

	conform_open();
	OK(cuMemCreate, &handle, SIZE, &prop, 0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle, &fd, handle, POSIX,
	      0);
}

Test(handle, is_released_once)
{
	CUmemGenericAllocationHandle handle;

	conform_open();
	handle = memory_create(SIZE);
	OK(cuMemRelease, handle);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRelease, handle);
}

Test(map, takes_memory_to_an_address_and_away)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	uint32_t word;

	conform_context();
	at = address_reserve(SIZE, ADDRESS);
	handle = memory_create(SIZE);
	memory_map(at, SIZE, handle, WRITE);
	words_write(at, 1, WORDS);
	cr_assert(words_match(at, 1, WORDS));
	OK(cuMemUnmap, at, SIZE);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2, &word, at, sizeof(word));

	memory_map(at, SIZE, handle, WRITE);
	cr_assert(words_match(at, 1, WORDS));
	OK(cuMemUnmap, at, SIZE);
	OK(cuMemRelease, handle);
	OK(cuMemAddressFree, at, SIZE);
}

Test(map, fresh_memory_is_zero_though_it_was_used_before)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;

	conform_context();
	at = address_reserve(64 * MIB, 0);
	for (int i = 0; i < 3; i++) {
		handle = memory_create(64 * MIB);
		memory_map(at, 64 * MIB, handle, WRITE);
		cr_assert(words_are_zero(at, 16 * MIB));
		OK(cuMemsetD8_v2, at, 0xff, 64 * MIB);
		OK(cuCtxSynchronize);
		OK(cuMemUnmap, at, 64 * MIB);
		OK(cuMemRelease, handle);
	}
}

Test(map, without_access_is_not_to_be_used)
{
	uint32_t word = 0;
	CUdeviceptr at;

	conform_context();
	at = address_reserve(SIZE, 0);
	memory_map(at, SIZE, memory_create(SIZE), NONE);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2, at, &word, sizeof(word));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2, &word, at, sizeof(word));
	memory_access(at, SIZE, WRITE);
	OK(cuMemcpyHtoD_v2, at, &word, sizeof(word));
}

Test(map, read_only_is_read_and_not_written)
{
	CUmemLocation location = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
	unsigned long long flags;
	uint32_t word = 0;
	CUdeviceptr at;

	conform_context();
	at = address_reserve(SIZE, 0);
	memory_map(at, SIZE, memory_create(SIZE), WRITE);
	words_write(at, 8, WORDS);
	memory_access(at, SIZE, READ);
	OK(cuMemGetAccess, &flags, &location, at);
	cr_assert_eq(flags, READ);
	cr_assert(words_match(at, 8, WORDS));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2, at, &word, sizeof(word));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2, at, 0, 16);
	cr_assert(words_match(at, 8, WORDS));
	memory_access(at, SIZE, WRITE);
	words_write(at, 9, WORDS);
}

Test(map, twice_shows_the_same_memory_at_two_addresses)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr first, second;

	conform_context();
	handle = memory_create(SIZE);
	first = address_reserve(SIZE, 0);
	second = address_reserve(SIZE, 0);
	memory_map(first, SIZE, handle, WRITE);
	memory_map(second, SIZE, handle, WRITE);
	words_write(first, 44, WORDS);
	cr_assert(words_match(second, 44, WORDS));
}

Test(map, neighbours_are_copied_as_one)
{
	CUdeviceptr at;

	conform_context();
	at = address_reserve(2 * SIZE, 0);
	memory_map(at, SIZE, memory_create(SIZE), WRITE);
	memory_map(at + SIZE, SIZE, memory_create(SIZE), WRITE);
	words_write(at, 3, 2 * WORDS);
	cr_assert(words_match(at, 3, 2 * WORDS));
	OK(cuMemUnmap, at, 2 * SIZE);
}

Test(map, keeps_memory_whose_handle_was_released)
{
	CUmemGenericAllocationHandle handle, retained;
	CUdeviceptr at;

	conform_context();
	at = address_reserve(SIZE, 0);
	handle = memory_create(SIZE);
	memory_map(at, SIZE, handle, WRITE);
	OK(cuMemRelease, handle);
	words_write(at, 6, WORDS);
	cr_assert(words_match(at, 6, WORDS));

	OK(cuMemRetainAllocationHandle, &retained, (void *)(uintptr_t)(at + MIB));
	OK(cuMemUnmap, at, SIZE);
	memory_map(at, SIZE, retained, WRITE);
	cr_assert(words_match(at, 6, WORDS));
	OK(cuMemUnmap, at, SIZE);
	OK(cuMemRelease, retained);
}

Test(map, outside_a_reservation_is_refused)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;

	conform_open();
	handle = memory_create(SIZE);
	at = address_reserve(SIZE, ADDRESS);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap, at + SIZE, SIZE, 0, handle, 0);
}

Test(map, over_another_is_refused)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;

	conform_open();
	handle = memory_create(SIZE);
	at = address_reserve(SIZE, 0);
	OK(cuMemMap, at, SIZE, 0, handle, 0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap, at, SIZE, 0, handle, 0);
}

Test(map, access_where_nothing_is_mapped_is_refused)
{
	const CUmemAccessDesc desc = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.flags = WRITE,
	};
	CUdeviceptr at;

	conform_context();
	at = address_reserve(SIZE, 0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess, at, SIZE, &desc, 1);
}

Test(map, keeps_its_reservation)
{
	CUdeviceptr at;

	conform_open();
	at = address_reserve(SIZE, 0);
	OK(cuMemMap, at, SIZE, 0, memory_create(SIZE), 0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree, at, SIZE);
	OK(cuMemUnmap, at, SIZE);
	OK(cuMemAddressFree, at, SIZE);
}

Test(map, pointer_tells_that_it_is_device_memory)
{
	int type, device;
	CUdeviceptr at;

	conform_context();
	at = address_reserve(SIZE, 0);
	memory_map(at, SIZE, memory_create(SIZE), WRITE);
	OK(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 5);
	cr_assert_eq(type, CU_MEMORYTYPE_DEVICE);
	OK(cuPointerGetAttribute, &device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at + 5);
	cr_assert_eq(device, 0);
}
