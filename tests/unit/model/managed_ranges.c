/* SPDX-License-Identifier: MIT */
/* The records of managed memory, against a model with a record for each page. */
#include "base/def.h"
#include "model/managed_ranges.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

#define PAGE	      4096u
#define N_ALLOCATIONS 12
#define PAGES_MAX     64
#define N_STEPS	      10000

#define DEVICE(n)     location_make(LOCATION_DEVICE, n)
#define CPU	      location_make(LOCATION_CPU, 0)
#define NUMA(n)	      location_make(LOCATION_NUMA, n)

/* An allocation, and the model's record of each of its pages. */
struct subject {
	struct managed *managed;
	uint64_t size;
	bool counted;
	struct managed_range pages[PAGES_MAX];
};

static struct managed_totals totals;

static uint32_t draw(uint32_t n)
{
	static uint32_t state = 1;

	state = state * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)state * n) >> 32);
}

static void set(struct managed *managed, uint64_t offset, uint64_t length,
		enum managed_change change, uint16_t value)
{
	cr_assert(eq(int, managed_reserve(managed), 0));
	managed_set(managed, &totals, offset, length, change, value);
	managed_unreserve(managed);
}

static void expect_no_totals(void)
{
	static const struct managed_totals none;

	cr_assert(eq(int, memcmp(&totals, &none, sizeof(none)), 0));
}

Test(managed, new_memory_has_one_range_that_says_nothing)
{
	struct managed *managed = managed_new(10000);
	uint64_t end;

	managed_count(managed, &totals);
	cr_assert(eq(u32, managed->n_ranges, 1));
	cr_assert(eq(u32, managed_find(managed, 9999, &end)->preferred, LOCATION_NONE));
	cr_assert(eq(u64, end, 10000));
	expect_no_totals();
	managed_free(managed, &totals);
}

Test(managed, range_stands_for_the_pages_it_touches_up_to_the_size)
{
	struct managed *managed = managed_new(3 * PAGE - 100);

	managed_count(managed, &totals);
	set(managed, PAGE + 5, 1, MANAGED_PREFETCHED, DEVICE(1));
	cr_assert(eq(u64, totals.prefetched[1], PAGE));
	set(managed, 2 * PAGE + 5, 1, MANAGED_PREFETCHED, DEVICE(1));
	cr_assert(eq(u64, totals.prefetched[1], 2 * PAGE - 100));
	cr_assert(eq(u32, managed->n_ranges, 2));
	managed_free(managed, &totals);
	expect_no_totals();
}

Test(managed, overlap_counts_once_and_for_the_last)
{
	struct managed *managed = managed_new(8 * PAGE);

	managed_count(managed, &totals);
	set(managed, 0, 5 * PAGE, MANAGED_PREFERRED, DEVICE(0));
	set(managed, 3 * PAGE, 5 * PAGE, MANAGED_PREFERRED, DEVICE(2));
	set(managed, PAGE, PAGE, MANAGED_PREFERRED, CPU);
	set(managed, 6 * PAGE, PAGE, MANAGED_PREFERRED, NUMA(1));
	cr_assert(eq(u64, totals.preferred[0], 2 * PAGE));
	cr_assert(eq(u64, totals.preferred[2], 4 * PAGE));
	cr_assert(eq(u64, totals.preferred[MANAGED_PLACE_HOST], 2 * PAGE));
	cr_assert(eq(u32, managed->n_ranges, 6));
	set(managed, 0, 8 * PAGE, MANAGED_PREFERRED, LOCATION_NONE);
	cr_assert(eq(u32, managed->n_ranges, 1));
	expect_no_totals();
	managed_free(managed, &totals);
}

Test(managed, what_is_lost_is_nowhere_and_comes_back)
{
	struct managed *managed = managed_new(2 * PAGE);

	managed_count(managed, &totals);
	set(managed, 0, PAGE, MANAGED_PREFETCHED, DEVICE(0));
	managed_uncount(managed, &totals);
	expect_no_totals();
	set(managed, PAGE, PAGE, MANAGED_PREFETCHED, DEVICE(0));
	expect_no_totals();
	managed_count(managed, &totals);
	cr_assert(eq(u64, totals.prefetched[0], 2 * PAGE));
	managed_free(managed, &totals);
	expect_no_totals();
}

Test(managed, ranges_have_a_limit_and_a_change_has_room_reserved)
{
	uint64_t n = MANAGED_RANGES_MAX;
	struct managed *managed = managed_new(2 * n * PAGE);
	uint64_t i = 0;
	int r;

	while ((r = managed_reserve(managed)) == 0) {
		managed_set(managed, &totals, i++ * 2 * PAGE, PAGE, MANAGED_READ_MOSTLY,
			    1);
		managed_unreserve(managed);
	}
	cr_assert(eq(int, r, -ENOSPC));
	cr_assert(le(u32, managed->n_ranges, MANAGED_RANGES_MAX));
	cr_assert(ge(u32, managed->n_ranges, MANAGED_RANGES_MAX - 2));
	managed_free(managed, &totals);
}

Test(managed, two_changes_under_way_both_have_room)
{
	struct managed *managed = managed_new(16 * PAGE);

	for (int i = 0; i < 4; i++)
		cr_assert(eq(int, managed_reserve(managed), 0));
	managed_unreserve(managed);
	for (uint64_t i = 0; i < 3; i++) {
		managed_set(managed, &totals, (4 * i + 1) * PAGE, PAGE,
			    MANAGED_READ_MOSTLY, 1);
		managed_unreserve(managed);
	}
	cr_assert(eq(u32, managed->n_ranges, 7));
	cr_assert(eq(u32, managed->n_reserved, 0));
	managed_free(managed, &totals);
}

Test(managed, change_noted_in_parts_needs_the_room_of_one)
{
	struct managed *managed = managed_new(16 * PAGE);

	for (uint64_t i = 0; i < 3; i++)
		set(managed, (4 * i + 2) * PAGE, PAGE, MANAGED_PREFERRED, 1);
	cr_assert(eq(int, managed_reserve(managed), 0));
	for (uint64_t offset = PAGE, end; offset < 15 * PAGE; offset = end) {
		managed_find(managed, offset, &end);
		end = MIN(end, 15 * PAGE);
		managed_set(managed, &totals, offset, end - offset, MANAGED_READ_MOSTLY,
			    1);
		cr_assert(le(u32, managed->n_ranges, managed->capacity));
	}
	managed_unreserve(managed);
	cr_assert(eq(u32, managed->n_ranges, 9));
	cr_assert(eq(u32, managed->n_reserved, 0));
	managed_free(managed, &totals);
}

/* ---- ten thousand steps ---- */

static void subject_change(struct subject *subject, uint64_t offset, uint64_t length,
			   enum managed_change change, uint16_t value)
{
	set(subject->managed, offset, length, change, value);
	for (uint64_t i = offset / PAGE; i <= (offset + length - 1) / PAGE; i++) {
		struct managed_range *page = &subject->pages[i];

		if (change == MANAGED_READ_MOSTLY)
			page->read_mostly = value;
		else if (change == MANAGED_PREFERRED)
			page->preferred = value;
		else if (change == MANAGED_PREFETCHED)
			page->prefetched = value;
		else if (change == MANAGED_ACCESSED_BY)
			page->accessed_by |= location_set_bit(value);
		else
			page->accessed_by &= ~location_set_bit(value);
	}
}

static void subject_step(struct subject *subject)
{
	const uint16_t locations[] = {
		CPU, DEVICE(0), DEVICE(1), DEVICE(15), NUMA(1), 0
	};
	enum managed_change change = (enum managed_change)draw(5);
	uint16_t value = locations[draw(4)];
	uint64_t offset = draw((uint32_t)subject->size);
	uint64_t length = 1 + draw((uint32_t)(subject->size - offset));

	if (change == MANAGED_READ_MOSTLY)
		value = (uint16_t)draw(2);
	else if (change == MANAGED_PREFERRED)
		value = locations[draw(6)];
	else if (change == MANAGED_PREFETCHED)
		value = locations[draw(5)];
	subject_change(subject, offset, length, change, value);
}

static uint64_t *place(uint64_t *places, uint16_t location)
{
	static uint64_t nowhere;

	if (location == LOCATION_NONE)
		return &nowhere;
	return &places[location_place(location) == LOCATION_DEVICE
			       ? location_number(location)
			       : MANAGED_PLACE_HOST];
}

static void subject_expect(const struct subject *subject, struct managed_totals *sum)
{
	const struct managed *managed = subject->managed;
	uint32_t n_ranges = 0;

	for (uint64_t offset = 0; offset < subject->size; offset += PAGE) {
		const struct managed_range *page = &subject->pages[offset / PAGE];
		uint64_t bytes = MIN((uint64_t)PAGE, subject->size - offset), end;
		const struct managed_range *range = managed_find(managed, offset, &end);

		n_ranges += range->offset == offset;
		cr_assert(eq(u32, range->preferred, page->preferred));
		cr_assert(eq(u32, range->prefetched, page->prefetched));
		cr_assert(eq(u32, range->accessed_by, page->accessed_by));
		cr_assert(eq(int, range->read_mostly, page->read_mostly));
		if (subject->counted) {
			*place(sum->preferred, page->preferred) += bytes;
			*place(sum->prefetched, page->prefetched) += bytes;
		}
	}
	cr_assert(eq(u32, managed->n_ranges, n_ranges));
}

static void subject_new(struct subject *subject)
{
	*subject =
		(struct subject){ .size = 1 + draw(PAGES_MAX * PAGE), .counted = true };
	subject->managed = managed_new(subject->size);
	managed_count(subject->managed, &totals);
}

static void subject_free(struct subject *subject)
{
	subject->managed = managed_free(subject->managed, &totals);
}

Test(managed, totals_are_exact_after_ten_thousand_steps)
{
	static struct subject subjects[N_ALLOCATIONS];

	for (int step = 0; step < N_STEPS; step++) {
		struct subject *subject = &subjects[draw(N_ALLOCATIONS)];
		struct managed_totals sum = { 0 };

		if (!subject->managed) {
			subject_new(subject);
		} else if (draw(30) == 0) {
			subject_free(subject);
		} else if (draw(30) == 0) {
			subject->counted = !subject->counted;
			if (subject->counted)
				managed_count(subject->managed, &totals);
			else
				managed_uncount(subject->managed, &totals);
		} else {
			subject_step(subject);
		}
		for (int i = 0; i < N_ALLOCATIONS; i++) {
			if (subjects[i].managed)
				subject_expect(&subjects[i], &sum);
		}
		cr_assert(eq(int, memcmp(&totals, &sum, sizeof(sum)), 0), "step %d",
			  step);
	}
	for (int i = 0; i < N_ALLOCATIONS; i++)
		subject_free(&subjects[i]);
	expect_no_totals();
}

Test(managed, host_is_left_by_ranges)
{
	struct managed *managed = managed_new(8 * PAGE);

	cr_assert(managed_is_on_host(managed, 0, 8 * PAGE));
	set(managed, 2 * PAGE, 2 * PAGE, MANAGED_PREFETCHED, DEVICE(0));
	cr_assert(not(managed_is_on_host(managed, 0, 8 * PAGE)));
	cr_assert(managed_is_on_host(managed, 0, 2 * PAGE));
	cr_assert(managed_is_on_host(managed, 4 * PAGE + 1, PAGE));
	cr_assert(eq(u64, managed_alike(managed, PAGE, 7 * PAGE), PAGE));
	cr_assert(eq(u64, managed_alike(managed, 3 * PAGE, 5 * PAGE), PAGE));
	cr_assert(eq(u64, managed_alike(managed, 5 * PAGE, 3 * PAGE), 3 * PAGE));
	managed_leave_host(managed, 7 * PAGE, PAGE);
	cr_assert(not(managed_is_on_host(managed, 4 * PAGE, PAGE)),
		  "the range is the unit");
	cr_assert(managed_is_on_host(managed, 0, PAGE));
	set(managed, 0, 8 * PAGE, MANAGED_PREFETCHED, NUMA(1));
	cr_assert(managed_is_on_host(managed, 0, 8 * PAGE));
	cr_assert(eq(u32, managed->n_ranges, 1));
	managed_free(managed, &totals);
}
