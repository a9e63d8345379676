/* SPDX-License-Identifier: MIT */
#include "base/handle_table.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>

#include "base/def.h"

static int objects[4];

Test(slots, token_finds_its_object)
{
	uint32_t slot, generation;
	struct handle_table slots;

	handle_table_init(&slots);
	cr_assert(eq(int, handle_table_add(&slots, &objects[0], &slot, &generation), 0));
	cr_assert(ne(u32, generation, 0));
	cr_assert(eq(ptr, handle_table_get(&slots, slot, generation), &objects[0]));
	cr_assert(eq(ptr, handle_table_get(&slots, slot, generation + 1), NULL));
	cr_assert(eq(ptr, handle_table_get(&slots, slot + 1, generation), NULL));
	cr_assert(eq(ptr, handle_table_get(&slots, UINT32_MAX, generation), NULL));
	cr_assert(eq(ptr, handle_table_at(&slots, slot), &objects[0]));
	cr_assert(eq(ptr, handle_table_at(&slots, slot + 1), NULL));
	cr_assert(eq(ptr, handle_table_at(&slots, UINT64_C(1) << 32 | slot), NULL));
	handle_table_remove(&slots, slot);
	cr_assert(eq(ptr, handle_table_at(&slots, slot), NULL));
	handle_table_deinit(&slots);
}

Test(slots, stale_token_finds_nothing_whatever_stands_there_now)
{
	uint32_t slot, generation, other_slot, other_generation;
	struct handle_table slots;

	handle_table_init(&slots);
	(void)handle_table_add(&slots, &objects[0], &slot, &generation);
	handle_table_remove(&slots, slot);
	cr_assert(eq(ptr, handle_table_get(&slots, slot, generation), NULL));
	cr_assert(eq(ptr, handle_table_get(&slots, slot, generation + 1), NULL));
	(void)handle_table_add(&slots, &objects[1], &other_slot, &other_generation);
	cr_assert(eq(u32, other_slot, slot));
	cr_assert(ne(u32, other_generation, generation));
	cr_assert(eq(ptr, handle_table_get(&slots, slot, generation), NULL));
	cr_assert(eq(ptr, handle_table_get(&slots, slot, other_generation), &objects[1]));
	handle_table_remove(&slots, slot);
	handle_table_deinit(&slots);
}

Test(slots, oldest_free_slot_is_reused_first)
{
	static const uint32_t removed[] = { 3, 1, 4, 0, 2 };
	uint32_t slot, generation;
	struct handle_table slots;

	handle_table_init(&slots);
	for (int i = 0; i < 5; i++)
		(void)handle_table_add(&slots, &objects[0], &slot, &generation);
	for (int i = 0; i < 5; i++)
		handle_table_remove(&slots, removed[i]);
	for (int i = 0; i < 5; i++) {
		(void)handle_table_add(&slots, &objects[0], &slot, &generation);
		cr_assert(eq(u32, slot, removed[i]));
		cr_assert(eq(u32, generation, 2));
	}
	(void)handle_table_add(&slots, &objects[0], &slot, &generation);
	cr_assert(eq(u32, slot, 5));
	for (uint32_t i = 0; i < 6; i++)
		handle_table_remove(&slots, i);
	handle_table_deinit(&slots);
}

/* As by a program that opens and closes a file again and again. */
Test(slots, no_token_is_met_in_a_later_boot)
{
	uint32_t slot, generation, later;
	struct handle_table slots, next;

	handle_table_init(&slots);
	handle_table_begin(&slots, 7);
	handle_table_init(&next);
	handle_table_begin(&next, 8);
	(void)handle_table_add(&next, &objects[0], &slot, &later);
	for (uint32_t i = 0; i < 2 * GENERATIONS; i++) {
		(void)handle_table_add(&slots, &objects[1], &slot, &generation);
		cr_assert(ne(u32, generation, 0));
		cr_assert(lt(u32, generation, later), "after %u uses", i);
		handle_table_remove(&slots, slot);
		cr_assert(eq(ptr, handle_table_get(&slots, slot, generation), NULL));
	}
	handle_table_remove(&next, 0);
	handle_table_deinit(&slots);
	handle_table_deinit(&next);
}

Test(slots, grow_and_keep_all_tokens)
{
	enum { N = 10000 };
	static uint32_t generations[N];
	static char many[N];
	struct handle_table slots;
	uint32_t slot, n = 0;

	handle_table_init(&slots);
	for (uint32_t i = 0; i < N; i++) {
		cr_assert(eq(int,
			     handle_table_add(&slots, &many[i], &slot, &generations[i]),
			     0));
		cr_assert(eq(u32, slot, i));
	}
	for (uint32_t i = 0; i < N; i++)
		cr_assert(eq(ptr, handle_table_get(&slots, i, generations[i]), &many[i]));
	for (uint32_t i = 0; i < N; i += 2)
		handle_table_remove(&slots, i);
	for (slot = 0; handle_table_next(&slots, &slot); slot++) {
		cr_assert(eq(u32, slot % 2, 1));
		n++;
	}
	cr_assert(eq(u32, n, N / 2));
	cr_assert(eq(u32, slots.n_used, N / 2));
	for (uint32_t i = 1; i < N; i += 2)
		handle_table_remove(&slots, i);
	handle_table_deinit(&slots);
}

Test(slots, there_is_an_end_to_them)
{
	uint32_t slot, generation;
	struct handle_table slots;

	handle_table_init(&slots);
	for (uint32_t i = 0; i < SLOTS_MAX; i++) {
		if (handle_table_add(&slots, &objects[0], &slot, &generation) < 0)
			cr_fail("slot %u", i);
	}
	cr_assert(eq(int, handle_table_add(&slots, &objects[0], &slot, &generation),
		     -ENOMEM));
	for (uint32_t i = 0; i < SLOTS_MAX; i++)
		handle_table_remove(&slots, i);
	handle_table_deinit(&slots);
}

Test(slots, objects_come_back_in_any_order)
{
	static const uint32_t taken[] = { 3, 0, 5 };
	static const uint32_t left[] = { 1, 2, 4, 6 };
	int other;
	uint32_t slot, generation;
	struct handle_table slots;

	handle_table_init(&slots);
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		cr_assert(eq(int, handle_table_put(&slots, &objects[i], taken[i], 7), 0));
	cr_assert(eq(int, handle_table_put(&slots, &other, 3, 7), -EEXIST));
	handle_table_settle(&slots);
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		cr_assert(eq(ptr, handle_table_get(&slots, taken[i], 7), &objects[i]));
	for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
		cr_assert(
			eq(int, handle_table_add(&slots, &other, &slot, &generation), 0));
		cr_assert(eq(u32, slot, left[i]));
	}
	for (uint32_t i = 0; i < 7; i++)
		handle_table_remove(&slots, i);
	handle_table_deinit(&slots);
}
