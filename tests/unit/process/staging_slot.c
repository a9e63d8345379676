/* SPDX-License-Identifier: MIT */
/* The order in which waiting ops get slots of a staging area. */
#include "process/staging_slot.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "channel/staging.h"
#include "model/owner.h"
#include "process/worker.h"

#define N_EACH 3

static struct owner alice, bob, carol;

/* The next to get the slot of the one before. NULL: none waited. */
static struct slot_waiter *next(struct worker *worker)
{
	return staging_slot_put(worker, 0);
}

Test(staging_slot, users_take_turns)
{
	struct worker worker = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct slot_waiter holder, of_alice[N_EACH], of_bob[N_EACH], of_carol;

	cr_assert(ge(int, staging_init(&worker.staging, "test", 1), 0));
	cr_assert(staging_slot_get(&worker, &holder, &alice));
	for (int i = 0; i < N_EACH; i++)
		cr_expect(not(staging_slot_get(&worker, &of_alice[i], &alice)));
	for (int i = 0; i < N_EACH; i++)
		cr_expect(not(staging_slot_get(&worker, &of_bob[i], &bob)));
	cr_expect(eq(ptr, next(&worker), &of_alice[0]));
	cr_expect(not(staging_slot_get(&worker, &of_carol, &carol)));
	cr_expect(eq(ptr, next(&worker), &of_bob[0]));
	cr_expect(eq(ptr, next(&worker), &of_alice[1]));
	cr_expect(eq(ptr, next(&worker), &of_carol));
	cr_expect(eq(ptr, next(&worker), &of_bob[1]));
	cr_expect(eq(ptr, next(&worker), &of_alice[2]));
	cr_expect(eq(ptr, next(&worker), &of_bob[2]));
	cr_expect(eq(int, of_bob[2].slot, 0));
	cr_expect(eq(ptr, next(&worker), NULL));
	cr_expect(staging_slot_get(&worker, &holder, &bob));
	cr_expect(eq(ptr, next(&worker), NULL));
	staging_deinit(&worker.staging);
}
