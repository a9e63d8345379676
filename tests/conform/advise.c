/* SPDX-License-Identifier: MIT */
/* Advice, and the driver's reports about ranges of managed memory. */
#include "conform.h"
#include "managed.h"

SUITE(advise);

#define PAGE ((size_t)4096)

static const CUmemLocation device_0 = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
static const CUmemLocation host = { .type = CU_MEM_LOCATION_TYPE_HOST };
static const CUmemLocation node_0 = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA };

static int read_mostly(CUdeviceptr at, size_t size)
{
	return managed_number(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, size);
}

static int preferred(CUdeviceptr at, size_t size)
{
	return managed_number(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, size);
}

static int prefetched(CUdeviceptr at, size_t size)
{
	return managed_number(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, size);
}

static int preferred_type(CUdeviceptr at, size_t size)
{
	return managed_number(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, at, size);
}

static int preferred_id(CUdeviceptr at, size_t size)
{
	return managed_number(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID, at, size);
}

/* Whether accessed-by lists exactly these two, CU_DEVICE_INVALID for nothing. */
static bool accessed_by_is(CUdeviceptr at, size_t size, int first, int second)
{
	int list[4] = { -1000, -1000, -1000, -1000 };

	OK(cuMemRangeGetAttribute, list, sizeof(list), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
	   at, size);
	if (list[2] != CU_DEVICE_INVALID || list[3] != CU_DEVICE_INVALID)
		return false;
	return (list[0] == first && list[1] == second) ||
	       (list[0] == second && list[1] == first);
}

Test(advise, is_none_at_first)
{
	const CUdeviceptr at = managed_begin(4 * MIB);

	cr_assert_eq(read_mostly(at, 4 * MIB), 0);
	cr_assert_eq(preferred(at, 4 * MIB), CU_DEVICE_INVALID);
	cr_assert(accessed_by_is(at, 4 * MIB, CU_DEVICE_INVALID, CU_DEVICE_INVALID));
}

Test(advise, read_mostly_is_set_and_unset)
{
	const CUdeviceptr at = managed_begin(4 * MIB);

	OK(cuMemAdvise, at, 4 * MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
	cr_assert_eq(read_mostly(at, 4 * MIB), 1);
	OK(cuMemAdvise, at, 4 * MIB, CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0);
	cr_assert_eq(read_mostly(at, 4 * MIB), 0);
}

Test(advise, preferred_location_is_set_and_unset)
{
	const CUdeviceptr at = managed_begin(4 * MIB);

	OK(cuMemAdvise, at, 4 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0);
	cr_assert_eq(preferred(at, 4 * MIB), 0);
	OK(cuMemAdvise, at, 4 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU);
	cr_assert_eq(preferred(at, 4 * MIB), CU_DEVICE_CPU);
	OK(cuMemAdvise, at, 4 * MIB, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 0);
	cr_assert_eq(preferred(at, 4 * MIB), CU_DEVICE_INVALID);
}

Test(advise, accessed_by_is_a_set)
{
	const CUdeviceptr at = managed_begin(4 * MIB);

	OK(cuMemAdvise, at, 4 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, 0);
	OK(cuMemAdvise, at, 4 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, 0);
	cr_assert(accessed_by_is(at, 4 * MIB, 0, CU_DEVICE_INVALID));
	OK(cuMemAdvise, at, 4 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU);
	cr_assert(accessed_by_is(at, 4 * MIB, 0, CU_DEVICE_CPU));
	OK(cuMemAdvise, at, 4 * MIB, CU_MEM_ADVISE_UNSET_ACCESSED_BY, 0);
	cr_assert(accessed_by_is(at, 4 * MIB, CU_DEVICE_CPU, CU_DEVICE_INVALID));
	OK(cuMemAdvise, at, 4 * MIB, CU_MEM_ADVISE_UNSET_ACCESSED_BY, CU_DEVICE_CPU);
	cr_assert(accessed_by_is(at, 4 * MIB, CU_DEVICE_INVALID, CU_DEVICE_INVALID));
}

Test(advise, accessed_by_of_two_devices_is_told)
{
	const CUdeviceptr at = managed_begin(4 * MIB);
	int one;

	conform_need_devices(2);
	OK(cuMemAdvise, at, 4 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, 0);
	OK(cuMemAdvise, at, 4 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, 1);
	cr_assert(accessed_by_is(at, 4 * MIB, 0, 1));
	OK(cuMemRangeGetAttribute, &one, sizeof(one), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
	   at, 4 * MIB);
	cr_assert(one == 0 || one == 1);
}

/*
 * Drivers accept a NUMA node of the host as preferred location and differ in their
 * report: drivers of CUDA 13.0 report the former location, CUDA's manual says the node.
 */
static bool node_or_before(int type, int before)
{
	return type == CU_MEM_LOCATION_TYPE_HOST_NUMA || type == before;
}

Test(advise, with_a_location_is_told_with_type_and_id)
{
	const CUdeviceptr at = managed_begin(4 * MIB);

	managed_need_locations();
	cr_assert_eq(preferred_type(at, 4 * MIB), CU_MEM_LOCATION_TYPE_INVALID);
	OK(cuMemAdvise_v2, at, 4 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device_0);
	cr_assert_eq(preferred_type(at, 4 * MIB), CU_MEM_LOCATION_TYPE_DEVICE);
	cr_assert_eq(preferred_id(at, 4 * MIB), 0);
	OK(cuMemAdvise_v2, at, 4 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host);
	cr_assert_eq(preferred_type(at, 4 * MIB), CU_MEM_LOCATION_TYPE_HOST);
	OK(cuMemAdvise_v2, at, 4 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, node_0);
	cr_assert(node_or_before(preferred_type(at, 4 * MIB), CU_MEM_LOCATION_TYPE_HOST));
	OK(cuMemAdvise_v2, at, 4 * MIB, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, host);
	cr_assert_eq(preferred_type(at, 4 * MIB), CU_MEM_LOCATION_TYPE_INVALID);
	OK(cuMemAdvise_v2, at, 4 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, host);
	OK(cuMemAdvise_v2, at, 4 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, device_0);
	cr_assert(accessed_by_is(at, 4 * MIB, 0, CU_DEVICE_CPU));
	OK(cuMemAdvise_v2, at, 4 * MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, device_0);
	cr_assert_eq(read_mostly(at, 4 * MIB), 1);
}

Test(advise, of_a_part_is_told_for_it)
{
	const CUdeviceptr at = managed_begin(8 * MIB);

	OK(cuMemAdvise, at + 2 * MIB, 4 * MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
	OK(cuMemAdvise, at, 4 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0);
	OK(cuMemAdvise, at + 4 * MIB, 4 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
	   CU_DEVICE_CPU);
	OK(cuMemAdvise, at + 6 * MIB, 2 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, 0);
	cr_assert_eq(read_mostly(at, 8 * MIB), 0);
	cr_assert_eq(read_mostly(at + 2 * MIB, 4 * MIB), 1);
	cr_assert_eq(preferred(at, 8 * MIB), CU_DEVICE_INVALID);
	cr_assert_eq(preferred(at, 4 * MIB), 0);
	cr_assert_eq(preferred(at + 4 * MIB, 4 * MIB), CU_DEVICE_CPU);
	cr_assert(accessed_by_is(at, 8 * MIB, CU_DEVICE_INVALID, CU_DEVICE_INVALID));
	cr_assert(accessed_by_is(at + 6 * MIB, 2 * MIB, 0, CU_DEVICE_INVALID));
}

#define N_PAGES 40u

/* The advice given for a page. */
struct said {
	int read_mostly, preferred;
};

static unsigned int random_below(unsigned int n)
{
	static uint32_t state = 1;

	state = state * 1664525 + 1013904223;
	return (unsigned int)(((uint64_t)state * n) >> 32);
}

static void say(CUdeviceptr at, size_t size, const struct said *said)
{
	OK(cuMemAdvise, at, size,
	   said->read_mostly ? CU_MEM_ADVISE_SET_READ_MOSTLY
			     : CU_MEM_ADVISE_UNSET_READ_MOSTLY,
	   0);
	OK(cuMemAdvise, at, size,
	   said->preferred == CU_DEVICE_INVALID ? CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION
						: CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
	   MAX(said->preferred, CU_DEVICE_CPU));
}

/* Gives the advice range by range, where a range has the same advice up to now. */
static void say_of_pages(CUdeviceptr at, struct said *pages, unsigned int begin_page,
			 unsigned int end_page, const struct said *said)
{
	for (unsigned int i = begin_page, end; i < end_page; i = end) {
		for (end = i + 1; end < end_page; end++) {
			if (pages[end].read_mostly != pages[i].read_mostly ||
			    pages[end].preferred != pages[i].preferred)
				break;
		}
		say(at + i * PAGE, (end - i) * PAGE, said);
	}
	for (unsigned int i = begin_page; i < end_page; i++)
		pages[i] = *said;
}

/*
 * Driver 580 skips parts of an advised range if the range covers parts with different
 * advice. The broker relies on the driver to skip nothing when each part is advised
 * alone.
 */
Test(advise, of_parts_that_differ_one_by_one_is_told_for_each)
{
	const CUdeviceptr at = managed_begin(N_PAGES * PAGE);
	static const int places[] = { CU_DEVICE_INVALID, CU_DEVICE_CPU, 0 };
	struct said pages[N_PAGES];

	for (unsigned int i = 0; i < N_PAGES; i++)
		pages[i] = (struct said){ 0, CU_DEVICE_INVALID };
	for (unsigned int step = 0; step < 100; step++) {
		struct said said = { (int)random_below(2), places[random_below(3)] };
		unsigned int begin_page = random_below(N_PAGES);

		say_of_pages(at, pages, begin_page,
			     begin_page + 1 + random_below(N_PAGES - begin_page), &said);
		for (unsigned int i = 0; i < N_PAGES; i++) {
			cr_assert_eq(read_mostly(at + i * PAGE, PAGE),
				     pages[i].read_mostly);
			cr_assert_eq(preferred(at + i * PAGE, PAGE), pages[i].preferred);
		}
	}
}

Test(advise, is_for_whole_pages)
{
	const CUdeviceptr at = managed_begin(16 * PAGE);

	OK(cuMemAdvise, at + 5 * PAGE + 10, 20, CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
	cr_assert_eq(read_mostly(at + 5 * PAGE, PAGE), 1);
	cr_assert_eq(read_mostly(at + 5 * PAGE + 100, 1), 1);
	cr_assert_eq(read_mostly(at + 4 * PAGE, PAGE), 0);
	cr_assert_eq(read_mostly(at + 6 * PAGE, PAGE), 0);
}

Test(advise, of_one_allocation_is_not_its_neighbours)
{
	const CUdeviceptr at = managed_begin(2 * MIB), other = managed_new(2 * MIB);

	OK(cuMemAdvise, at, 2 * MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
	cr_assert_eq(read_mostly(other, 2 * MIB), 0);
}

Test(advise, is_forgotten_with_the_memory)
{
	CUdeviceptr at = managed_begin(4 * MIB);

	OK(cuMemAdvise, at, 4 * MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
	OK(cuMemPrefetchAsync, at, 4 * MIB, 0, NULL);
	OK(cuMemFree_v2, at);
	at = managed_new(4 * MIB);
	cr_assert_eq(read_mostly(at, 4 * MIB), 0);
	cr_assert_eq(prefetched(at, 4 * MIB), CU_DEVICE_INVALID);
}

Test(advise, attributes_are_told_together)
{
	const CUdeviceptr at = managed_begin(4 * MIB);
	int mostly = -1, location = -1000, list[2] = { -1000, -1000 };
	void *values[] = { &mostly, list, &location };
	size_t sizes[] = { sizeof(mostly), sizeof(list), sizeof(location) };
	CUmem_range_attribute attributes[] = {
		CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
		CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION
	};

	OK(cuMemAdvise, at, 4 * MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
	OK(cuMemAdvise, at, 4 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, 0);
	OK(cuMemRangeGetAttributes, values, sizes, attributes, 3, at, 4 * MIB);
	cr_assert_eq(mostly, 1);
	cr_assert_eq(list[0], 0);
	cr_assert_eq(list[1], CU_DEVICE_INVALID);
	cr_assert_eq(location, CU_DEVICE_INVALID);
}

Test(advise, of_what_is_not_managed_is_refused)
{
	CUdeviceptr device;
	void *pinned;
	int value;

	managed_begin(MIB);
	OK(cuMemAlloc_v2, &device, MIB);
	OK(cuMemHostAlloc, &pinned, MIB, 0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAdvise, device, MIB,
	      CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAdvise, 0, MIB,
	      CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute, &value, sizeof(value),
	      CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, device, MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute, &value, sizeof(value),
	      CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, (CUdeviceptr)(uintptr_t)pinned, MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute, &value, sizeof(value),
	      CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 0, MIB);
}

Test(advise, of_nothing_or_too_much_is_refused)
{
	const CUdeviceptr at = managed_begin(PAGE);

	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAdvise, at, 0, CU_MEM_ADVISE_SET_READ_MOSTLY,
	      0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAdvise, at, (size_t)1 << 40,
	      CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
	cr_assert_eq(read_mostly(at, PAGE), 0);
}

Test(advise, that_is_unknown_is_refused)
{
	const CUdeviceptr at = managed_begin(MIB);

	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAdvise, at, MIB, (CUmem_advise)0, 0);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAdvise, at, MIB, (CUmem_advise)99, 0);
}

Test(advise, for_no_device_is_refused)
{
	const CUdeviceptr at = managed_begin(MIB);

	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemAdvise, at, MIB,
	      CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 1000);
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemAdvise, at, MIB,
	      CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_INVALID);
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemAdvise, at, MIB,
	      CU_MEM_ADVISE_SET_ACCESSED_BY, 1000);
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemAdvise, at, MIB,
	      CU_MEM_ADVISE_UNSET_ACCESSED_BY, 1000);
	cr_assert_eq(preferred(at, MIB), CU_DEVICE_INVALID);
}

Test(advise, accessed_by_a_node_of_the_host_is_refused)
{
	const CUdeviceptr at = managed_begin(MIB);

	managed_need_locations();
	cr_assert(managed_refuses(driver->fn_cuMemAdvise_v2(
		at, MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, node_0)));
	cr_assert(accessed_by_is(at, MIB, CU_DEVICE_INVALID, CU_DEVICE_INVALID));
}

Test(advise, questions_of_a_wrong_size_are_refused)
{
	const CUdeviceptr at = managed_begin(MIB);
	int values[4];

	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute, NULL, 4,
	      CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute, values, 0,
	      CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute, values, 8,
	      CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute, values, 8,
	      CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute, values, 8,
	      CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute, values, 10,
	      CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, at, MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute, values, 4,
	      (CUmem_range_attribute)999, at, MIB);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute, values, 4,
	      CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, 0);
}
