/* SPDX-License-Identifier: MIT */
#include "model/place_table.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/def.h"

/* More than three levels have. */
#define N_PLACES 300000u

/* The broker's allocations from this one on fail; -1: none does. */
static int allocations_left = -1;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	if (allocations_left >= 0 && allocations_left-- == 0) {
		allocations_left = 0;
		return NULL;
	}
	return __real_calloc(n, size);
}

static char objects[N_PLACES];
static bool is_used[N_PLACES];

static void expect_add(struct place_table *table, uint32_t place)
{
	uint32_t found = UINT32_MAX;

	cr_assert(eq(int, place_table_add(table, &objects[place], &found), 0));
	cr_assert(eq(u32, found, place));
	is_used[place] = true;
}

static void drop(struct place_table *table, uint32_t place)
{
	place_table_remove(table, place);
	is_used[place] = false;
}

static void expect_listed(const struct place_table *table)
{
	uint32_t place = 0, n = 0;

	for (uint32_t i = 0; i < N_PLACES; i++) {
		if (!is_used[i])
			continue;
		cr_assert(eq(ptr, place_table_next(table, &place), &objects[i]));
		cr_assert(eq(u32, place, i));
		place++;
		n++;
	}
	cr_assert(eq(ptr, place_table_next(table, &place), NULL));
	cr_assert(eq(u32, table->n_used, n));
}

static void drop_all(struct place_table *table)
{
	for (uint32_t i = 0; i < N_PLACES; i++) {
		if (is_used[i])
			drop(table, i);
	}
	cr_assert(eq(ptr, table->root, NULL));
	cr_assert(eq(u32, table->n_levels, 0));
	place_table_deinit(table);
}

Test(place_table, the_lowest_free_place_comes_first)
{
	struct place_table table = { 0 };

	expect_listed(&table);
	for (uint32_t i = 0; i < N_PLACES; i++)
		expect_add(&table, i);
	expect_listed(&table);
	for (uint32_t i = 7; i < N_PLACES; i += 1000)
		drop(&table, i);
	expect_listed(&table);
	for (uint32_t i = 7; i < N_PLACES; i += 1000)
		expect_add(&table, i);
	expect_listed(&table);
	drop_all(&table);
}

Test(place_table, agrees_with_a_model)
{
	struct place_table table = { 0 };
	uint32_t lowest;
	int r;

	srandom(5);
	for (int i = 0; i < 40000; i++) {
		uint32_t range = 1u << (random() % 19), place = (uint32_t)random();

		place %= MIN(range, N_PLACES);
		if (i % 3 == 0 && is_used[place]) {
			drop(&table, place);
		} else if (i % 3 == 1) {
			for (lowest = 0; is_used[lowest];)
				lowest++;
			expect_add(&table, lowest);
		} else {
			r = place_table_put(&table, &objects[place], place);
			cr_assert(eq(int, r, is_used[place] ? -EEXIST : 0));
			is_used[place] = true;
		}
		if (i % 1000 == 0)
			expect_listed(&table);
	}
	drop_all(&table);
}

Test(place_table, another_object_takes_a_place_over)
{
	struct place_table table = { 0 };
	uint32_t place = 0;

	cr_assert(eq(int, place_table_put(&table, &objects[0], 5000), 0));
	place_table_replace(&table, 5000, &objects[1]);
	cr_assert(eq(ptr, place_table_next(&table, &place), &objects[1]));
	cr_assert(eq(u32, place, 5000));
	place_table_remove(&table, 5000);
	place_table_deinit(&table);
}

Test(place_table, places_have_an_end)
{
	struct place_table table = { 0 };
	uint32_t place = UINT32_MAX;

	cr_assert(eq(int, place_table_put(&table, objects, PLACES_MAX), -ENOMEM));
	cr_assert(eq(int, place_table_put(&table, objects, PLACES_MAX - 1), 0));
	cr_assert(eq(ptr, place_table_next(&table, &place), NULL));
	place = 0;
	cr_assert(eq(ptr, place_table_next(&table, &place), objects));
	place_table_remove(&table, PLACES_MAX - 1);
	place_table_deinit(&table);
}

Test(place_table, nothing_is_half_done_without_memory)
{
	struct place_table table = { 0 };
	int r = -ENOMEM, n;

	expect_add(&table, 0);
	for (n = 0; r == -ENOMEM; n++) {
		expect_listed(&table);
		allocations_left = n;
		r = place_table_put(&table, &objects[N_PLACES - 1], N_PLACES - 1);
		allocations_left = -1;
	}
	cr_assert(gt(int, n, 4));
	is_used[N_PLACES - 1] = true;
	expect_listed(&table);
	drop_all(&table);
}

/* At any number of places, one of them free or none. */
Test(place_table, what_is_reserved_needs_no_memory)
{
	static const uint32_t n_before[] = { 0, 1, 63, 64, 65, 4000, 4095, 4096, 4097 };

	for (size_t i = 0; i < ARRAY_SIZE(n_before); i++) {
		for (uint32_t n = 1; n < 6000; n *= 7) {
			struct place_table table = { 0 };
			uint32_t n_used = n_before[i];

			for (uint32_t place = 0; place < n_used; place++)
				expect_add(&table, place);
			if (n_used > 70)
				drop(&table, 70);
			cr_assert(eq(int, place_table_reserve(&table, n), 0));
			allocations_left = 0;
			for (uint32_t j = 0; j < n; j++) {
				bool gap = n_used > 70;
				expect_add(&table, gap && j == 0 ? 70 : n_used + j - gap);
			}
			allocations_left = -1;
			expect_listed(&table);
			place_table_trim(&table);
			cr_assert(eq(u32, table.n_spare, 0));
			drop_all(&table);
		}
	}
}
