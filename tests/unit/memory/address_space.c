/* SPDX-License-Identifier: MIT */
#include "base/def.h"
#include "memory/address_space.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define BASE ((uint64_t)1 << 45)

Test(space, pieces_are_dealt_from_the_lowest_address)
{
	struct address_space space;

	cr_assert(eq(int, address_space_init(&space, BASE, 8 * SPACE_UNIT), 0));
	cr_assert(eq(u64, address_space_get(&space, 1), BASE));
	cr_assert(eq(u64, address_space_get(&space, SPACE_UNIT), BASE + SPACE_UNIT));
	cr_assert(eq(u64, address_space_get(&space, SPACE_UNIT + 1),
		     BASE + 2 * SPACE_UNIT));
	cr_assert(eq(u64, address_space_get(&space, 3 * SPACE_UNIT),
		     BASE + 4 * SPACE_UNIT));
	address_space_deinit(&space);
}

Test(space, full_space_and_what_is_larger_get_nothing)
{
	struct address_space space;

	cr_assert(eq(int, address_space_init(&space, BASE, 4 * SPACE_UNIT), 0));
	cr_assert(eq(u64, address_space_get(&space, 5 * SPACE_UNIT), 0));
	cr_assert(eq(u64, address_space_get(&space, UINT64_MAX), 0));
	cr_assert(eq(u64, address_space_get(&space, 4 * SPACE_UNIT), BASE));
	cr_assert(eq(u64, address_space_get(&space, 1), 0));
	address_space_put(&space, BASE, 4 * SPACE_UNIT);
	cr_assert(eq(u64, address_space_get(&space, 1), BASE));
	address_space_deinit(&space);
}

Test(space, the_smallest_span_is_one_piece)
{
	struct address_space space;

	cr_assert(eq(int, address_space_init(&space, BASE, SPACE_UNIT), 0));
	cr_assert(eq(u64, address_space_get(&space, SPACE_UNIT), BASE));
	cr_assert(eq(u64, address_space_get(&space, SPACE_UNIT), 0));
	address_space_put(&space, BASE, SPACE_UNIT);
	cr_assert(eq(u64, address_space_get(&space, 1), BASE));
	address_space_deinit(&space);
}

Test(space, neighbours_given_back_in_any_order_are_whole_again)
{
	static const int orders[][4] = { { 0, 1, 2, 3 }, { 3, 2, 1, 0 }, { 1, 2, 0, 3 } };

	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		struct address_space space;

		cr_assert(eq(int, address_space_init(&space, BASE, 4 * SPACE_UNIT), 0));
		for (int j = 0; j < 4; j++)
			(void)address_space_get(&space, SPACE_UNIT);
		for (int j = 0; j < 4; j++)
			address_space_put(&space,
					  BASE + (uint64_t)orders[i][j] * SPACE_UNIT,
					  SPACE_UNIT);
		cr_assert(eq(u64, address_space_get(&space, 4 * SPACE_UNIT), BASE));
		address_space_deinit(&space);
	}
}

/* ---- against a map of units ---- */

#define UNITS 1024
#define HELD  256
#define STEPS 50000

static uint32_t draw(uint32_t n)
{
	static uint32_t state = 7;

	state = state * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)state * n) >> 32);
}

static uint64_t piece_units(uint64_t size)
{
	uint64_t units = 1;

	while (units * SPACE_UNIT < size)
		units *= 2;
	return units;
}

static bool map_has_room(const bool *map, uint64_t units)
{
	for (uint64_t at = 0; at < UNITS; at += units) {
		uint64_t i = 0;

		while (i < units && !map[at + i])
			i++;
		if (i == units)
			return true;
	}
	return false;
}

/* A correct buddy allocator finds a place whenever an aligned place is free. */
Test(space, agrees_with_a_map_of_units)
{
	static struct {
		uint64_t address, size;
	} held[HELD];
	static bool map[UNITS];
	struct address_space space;

	cr_assert(eq(int, address_space_init(&space, BASE, UNITS * SPACE_UNIT), 0));
	for (int step = 0; step < STEPS; step++) {
		uint32_t at = draw(HELD);
		uint64_t size, units, unit;

		if (held[at].address) {
			unit = (held[at].address - BASE) / SPACE_UNIT;
			for (uint64_t i = 0; i < piece_units(held[at].size); i++)
				map[unit + i] = false;
			address_space_put(&space, held[at].address, held[at].size);
			held[at].address = 0;
			continue;
		}
		size = 1 + draw((uint32_t)(SPACE_UNIT << draw(7)));
		units = piece_units(size);
		held[at].size = size;
		held[at].address = address_space_get(&space, size);
		cr_assert(eq(int, held[at].address != 0, map_has_room(map, units)));
		if (!held[at].address)
			continue;
		unit = (held[at].address - BASE) / SPACE_UNIT;
		cr_assert(eq(u64, unit % units, 0));
		for (uint64_t i = 0; i < units; i++) {
			cr_assert(not(map[unit + i]));
			map[unit + i] = true;
		}
	}
	for (int i = 0; i < HELD; i++) {
		if (held[i].address)
			address_space_put(&space, held[i].address, held[i].size);
	}
	cr_assert(eq(u64, address_space_get(&space, UNITS * SPACE_UNIT), BASE));
	address_space_deinit(&space);
}
