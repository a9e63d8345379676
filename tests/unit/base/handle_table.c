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
	for (uint32_t i = 1; i < SLOTS_AT_REST; i++) {
		(void)handle_table_add(&slots, &objects[1], &other_slot,
				       &other_generation);
		handle_table_remove(&slots, other_slot);
	}
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
	uint32_t slot, generation;
	struct handle_table slots;

	handle_table_init(&slots);
	for (uint32_t i = 0; i < SLOTS_AT_REST; i++)
		(void)handle_table_add(&slots, &objects[0], &slot, &generation);
	/* 5 is prime to the number of slots. */
	for (uint32_t i = 0; i < SLOTS_AT_REST; i++)
		handle_table_remove(&slots, i * 5 % SLOTS_AT_REST);
	for (uint32_t i = 0; i < SLOTS_AT_REST; i++) {
		(void)handle_table_add(&slots, &objects[0], &slot, &generation);
		cr_assert(eq(u32, slot, i * 5 % SLOTS_AT_REST));
		cr_assert(eq(u32, generation, 2));
		handle_table_remove(&slots, slot);
	}
	handle_table_deinit(&slots);
}

Test(slots, a_slot_rests_until_others_are_free)
{
	uint32_t slot, generation;
	struct handle_table slots;

	handle_table_init(&slots);
	for (uint32_t i = 0; i < 100 * SLOTS_AT_REST; i++) {
		(void)handle_table_add(&slots, &objects[0], &slot, &generation);
		cr_assert(eq(u32, generation, 1 + i / SLOTS_AT_REST));
		handle_table_remove(&slots, slot);
	}
	cr_assert(eq(u32, slots.n_table, SLOTS_AT_REST));
	handle_table_deinit(&slots);
}

/* An open file may be older than many brokers. */
Test(slots, no_token_is_met_in_any_later_boot)
{
	enum { BOOTS = 5000 };
	uint32_t slot, generation, last = 0, end = 0;

	for (uint32_t boot = 0; boot < BOOTS; boot++) {
		struct handle_table slots;

		handle_table_init(&slots);
		handle_table_begin(&slots, &end);
		/* As by a program that opens and closes a file again and again. */
		for (uint32_t i = 0; i < 3 * SLOTS_AT_REST; i++) {
			(void)handle_table_add(&slots, &objects[0], &slot, &generation);
			cr_assert(gt(u32, generation, last));
			cr_assert(lt(u32, generation, end));
			handle_table_remove(&slots, slot);
		}
		last = generation;
		handle_table_deinit(&slots);
	}
}

Test(slots, tables_of_a_broker_share_the_end)
{
	uint32_t slot, generation, end = 0;
	struct handle_table one, other;

	handle_table_init(&one);
	handle_table_init(&other);
	handle_table_begin(&one, &end);
	(void)handle_table_add(&one, &objects[0], &slot, &generation);
	handle_table_begin(&other, &end);
	(void)handle_table_add(&other, &objects[0], &slot, &generation);
	cr_assert(lt(u32, generation, end));
	handle_table_remove(&one, 0);
	handle_table_remove(&other, 0);
	handle_table_deinit(&one);
	handle_table_deinit(&other);
}

Test(slots, after_the_last_generation_they_begin_again)
{
	uint32_t slot, generation, end = UINT32_MAX;
	struct handle_table slots;

	handle_table_init(&slots);
	handle_table_begin(&slots, &end);
	(void)handle_table_add(&slots, &objects[0], &slot, &generation);
	cr_assert(eq(u32, generation, 1));
	cr_assert(lt(u32, end, 100000));
	handle_table_remove(&slots, slot);
	handle_table_deinit(&slots);
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
	static const uint32_t taken[] = { SLOTS_AT_REST + 6, 0, 5 };
	static const uint32_t left[] = { 1, 2, 3, 4 };
	int other;
	uint32_t slot, generation;
	struct handle_table slots;

	handle_table_init(&slots);
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		cr_assert(eq(int, handle_table_put(&slots, &objects[i], taken[i], 7), 0));
	cr_assert(eq(int, handle_table_put(&slots, &other, 0, 7), -EEXIST));
	handle_table_settle(&slots);
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		cr_assert(eq(ptr, handle_table_get(&slots, taken[i], 7), &objects[i]));
	for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
		cr_assert(
			eq(int, handle_table_add(&slots, &other, &slot, &generation), 0));
		cr_assert(eq(u32, slot, left[i]));
	}
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		handle_table_remove(&slots, taken[i]);
	for (size_t i = 0; i < ARRAY_SIZE(left); i++)
		handle_table_remove(&slots, left[i]);
	handle_table_deinit(&slots);
}
