/* SPDX-License-Identifier: MIT */
#include "memory/reclaim.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "base/clock.h"
#include "base/def.h"
#include "model/owner.h"
#include "model/registry.h"

#define N	1000
#define N_TRIES 256 /* in a round */

static struct reclaim reclaim;
static struct queue_place places[N];
static unsigned int n_tries[N], n_tries_of_all;

static void retry(struct queue_place *place)
{
	n_tries[place - places]++;
	n_tries_of_all++;
}

/* So many wait, the first for the most, and all for so long. */
static void queue_up(unsigned int n, int64_t waited_ms)
{
	for (unsigned int i = 0; i < n; i++) {
		places[i] = (struct queue_place){ .size = N - i, .retry = retry };
		queue_join(&reclaim, &places[i]);
		places[i].since_ms = clock_ms() - waited_ms;
	}
}

static struct queue_place *trying(void)
{
	return reclaim.queues[0].trying;
}

/* There is no memory for any. */
static void round_in_vain(void)
{
	queue_wake(&reclaim, 0);
	while (trying())
		queue_tried(&reclaim, trying());
}

Test(reclaim, others_than_the_first_have_to_be_patient)
{
	queue_up(3, 0);
	places[1].since_ms -= QUEUE_PATIENCE_MS;
	round_in_vain();
	cr_expect(eq(uint, n_tries[0], 1));
	cr_expect(eq(uint, n_tries[1], 1));
	cr_expect(eq(uint, n_tries[2], 0));
}

Test(reclaim, what_is_no_smaller_than_one_in_vain_is_not_tried)
{
	queue_up(3, QUEUE_PATIENCE_MS);
	places[1].size = places[0].size;
	round_in_vain();
	cr_expect(eq(uint, n_tries[1], 0));
	cr_expect(eq(uint, n_tries[2], 1));
}

Test(reclaim, next_one_tries_when_the_first_has_its_memory)
{
	queue_up(3, 0);
	queue_wake(&reclaim, 0);
	queue_leave(&reclaim, &places[0]);
	cr_expect(eq(ptr, trying(), &places[1]));
	queue_leave(&reclaim, &places[2]);
	queue_tried(&reclaim, &places[1]);
	cr_expect(eq(ptr, trying(), NULL));
}

Test(reclaim, memory_that_arrives_during_a_round_is_for_the_first)
{
	queue_up(3, QUEUE_PATIENCE_MS);
	queue_wake(&reclaim, 0);
	queue_tried(&reclaim, &places[0]);
	queue_wake(&reclaim, 0);
	queue_tried(&reclaim, &places[1]);
	cr_expect(eq(ptr, trying(), &places[0]));
	cr_expect(eq(uint, n_tries[2], 0));
	queue_tried(&reclaim, &places[0]);
	cr_expect(eq(ptr, trying(), &places[1]));
}

Test(reclaim, place_that_goes_on_next_may_leave)
{
	queue_up(3, QUEUE_PATIENCE_MS);
	queue_wake(&reclaim, 0);
	queue_leave(&reclaim, &places[1]);
	queue_tried(&reclaim, &places[0]);
	cr_expect(eq(ptr, trying(), &places[2]));
}

Test(reclaim, thousand_places_are_few_tries_a_round)
{
	queue_up(N, QUEUE_PATIENCE_MS);
	round_in_vain();
	cr_expect(le(uint, n_tries_of_all, N_TRIES));
}

Test(reclaim, each_of_a_thousand_has_its_turn)
{
	queue_up(N, QUEUE_PATIENCE_MS);
	for (int i = 0; i < N / N_TRIES + 1; i++)
		round_in_vain();
	for (int i = 0; i < N; i++)
		cr_assert(ge(uint, n_tries[i], 1), "place %d", i);
	cr_expect(eq(uint, n_tries[0], N / N_TRIES + 1));
}

Test(reclaim, nobody_waits_for_a_try_in_the_worker_of_a_user)
{
	queue_up(3, QUEUE_PATIENCE_MS);
	places[0].apart = true;
	queue_wake(&reclaim, 0);
	cr_expect(eq(uint, n_tries[0], 1));
	cr_expect(eq(ptr, trying(), &places[1]));
	queue_tried(&reclaim, &places[1]);
	queue_leave(&reclaim, &places[2]);
	queue_wake(&reclaim, 0);
	cr_expect(eq(uint, n_tries[0], 1));
	cr_expect(eq(uint, n_tries[1], 2));
	queue_leave(&reclaim, &places[1]);
	queue_tried(&reclaim, &places[0]);
	cr_expect(eq(uint, n_tries[0], 2), "memory came during the try");
}

/* What a worker says of its memory is no word on that of others. */
Test(reclaim, a_try_in_the_worker_of_a_user_that_fails_keeps_nobody_from_trying)
{
	queue_up(3, QUEUE_PATIENCE_MS);
	places[0].apart = true;
	places[0].size = 1;
	queue_wake(&reclaim, 0);
	queue_tried(&reclaim, &places[0]);
	queue_tried(&reclaim, &places[1]);
	cr_expect(eq(ptr, trying(), &places[2]));
}

/* ---- waiting for an owner's memory ---- */

static unsigned int n_taken, n_retried;

static void taken(struct reclaim_waiter *waiter)
{
	(void)waiter;
	n_taken++;
}

static void retried(struct reclaim_waiter *waiter)
{
	(void)waiter;
	n_retried++;
}

static void wait_for(struct reclaim_waiter *waiter, struct owner *owner)
{
	*waiter = (struct reclaim_waiter){
		.from = { 0, owner },
		.uid = 1000,
		.taken = taken,
		.retry = retried,
	};
	reclaim_begin(&reclaim, waiter->from);
	cr_assert(reclaim_wait(&reclaim, waiter));
}

/* An owner with nothing is forgotten, and may come again. */
Test(reclaim, memory_comes_back_after_its_owner_was_forgotten)
{
	struct reclaim_waiter of_alice, of_bob;
	struct registry registry;
	struct reclaimed of_forgotten;
	struct owner *alice, *bob;

	registry_init(&registry);
	alice = owner_get(&registry, 1000, 100);
	of_forgotten = reclaimed_of((struct reclaim_from){ 0, alice });
	owner_free(&registry, alice);
	reclaim_retry(&reclaim, &registry, of_forgotten);
	alice = owner_get(&registry, 1000, 100);
	bob = owner_get(&registry, 1001, 101);
	wait_for(&of_alice, alice);
	wait_for(&of_bob, bob);
	reclaim_retry(&reclaim, &registry, of_forgotten);
	cr_expect(eq(uint, n_taken, 1));
	cr_expect(eq(uint, n_retried, 1));
	cr_expect(eq(ptr, alice->waiters, NULL));
	cr_expect(eq(ptr, bob->waiters, &of_bob));
	reclaim_forget(&reclaim, &of_bob);
	registry_deinit(&registry);
}
