/* SPDX-License-Identifier: MIT */
#include "memory/reclaim.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "base/clock.h"
#include "base/def.h"
#include "model/order.h"
#include "model/owner.h"
#include "model/registry.h"

#define N	1000
#define N_TRIES 64 /* in a round */

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
		places[i].since_ms -= waited_ms;
	}
	reclaim.queues[0].user_since_ms -= waited_ms;
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
	places[0].since_ms -= QUEUE_PATIENCE_MS;
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
	cr_expect(eq(ptr, trying(), &places[2]));
}

/* Something is freed all the time. */
Test(reclaim, memory_that_arrives_during_each_try_keeps_nobody_from_the_turn)
{
	queue_up(5, QUEUE_PATIENCE_MS);
	queue_wake(&reclaim, 0);
	for (int i = 0; i < 8; i++) {
		queue_wake(&reclaim, 0);
		queue_tried(&reclaim, trying());
	}
	for (int i = 0; i < 5; i++)
		cr_expect(ge(uint, n_tries[i], 1), "place %d", i);
	cr_expect(ge(uint, n_tries[0], 4));
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

/* Else the broker does nothing but that, for as long as both wait. */
Test(reclaim, tries_in_workers_of_users_do_not_wake_each_other)
{
	queue_up(2, QUEUE_PATIENCE_MS);
	places[0].apart = places[1].apart = true;
	queue_wake(&reclaim, 0);
	queue_wake(&reclaim, 0);
	for (int i = 0; i < 10; i++) {
		for (int k = 0; k < 2; k++) {
			if (queue_is_trying(&places[k]))
				queue_tried(&reclaim, &places[k]);
		}
	}
	cr_expect(eq(uint, n_tries[0], 2));
	cr_expect(eq(uint, n_tries[1], 2));
}

/* A worker of a user may say what it likes of the memory of the device. */
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

/* ---- users take turns ---- */

/* Requests of a user, from places[first] on, that have waited for so long. */
static void user_joins(uint64_t user, int first, int n, int64_t waited_ms)
{
	for (int i = first; i < first + n; i++) {
		places[i] =
			(struct queue_place){ .size = 10, .user = user, .retry = retry };
		queue_join(&reclaim, &places[i]);
		places[i].since_ms -= waited_ms;
	}
}

/* The user has been the first one's for long. */
static void first_waits(void)
{
	reclaim.queues[0].user_since_ms -= QUEUE_PATIENCE_MS;
}

/* A piece comes: whoever tries has it. Those behind try in vain. Returns: the place. */
static int piece_is_taken(void)
{
	struct queue_place *place;

	queue_wake(&reclaim, 0);
	place = trying();
	while (place && place->size > 10) {
		queue_tried(&reclaim, place);
		place = trying();
	}
	if (!place)
		return -1;
	queue_leave(&reclaim, place);
	while (trying())
		queue_tried(&reclaim, trying());
	return (int)(place - places);
}

Test(reclaim, a_user_with_one_request_has_the_second_piece)
{
	user_joins(1, 0, 500, 0);
	user_joins(2, 500, 1, 0);
	user_joins(3, 501, 2, 0);
	cr_expect(eq(int, piece_is_taken(), 0));
	cr_expect(eq(int, piece_is_taken(), 500));
	cr_expect(eq(int, piece_is_taken(), 501));
	cr_expect(eq(int, piece_is_taken(), 1));
	user_joins(2, 500, 1, 0);
	cr_expect(eq(int, piece_is_taken(), 502));
	cr_expect(eq(int, piece_is_taken(), 2));
	cr_expect(eq(int, piece_is_taken(), 500));
	for (int i = 3; i < 500; i++)
		cr_assert(eq(int, piece_is_taken(), i));
	cr_expect(eq(int, piece_is_taken(), -1));
}

Test(reclaim, patient_requests_give_a_user_no_second_piece_before_others)
{
	user_joins(1, 0, 500, QUEUE_PATIENCE_MS);
	user_joins(2, 500, 1, 0);
	first_waits();
	cr_expect(eq(int, piece_is_taken(), 0));
	cr_expect(eq(int, piece_is_taken(), 500));
	cr_expect(eq(int, piece_is_taken(), 1));
}

/* The first asks for more than there will ever be, and its user has others behind it. */
Test(reclaim, a_user_passes_the_own_request_and_no_other_user)
{
	user_joins(1, 0, 500, QUEUE_PATIENCE_MS);
	places[0].size = 1000;
	user_joins(2, 500, 1, 0);
	cr_expect(lt(int, piece_is_taken(), 500));
	cr_expect(eq(int, piece_is_taken(), 500));
	user_joins(2, 500, 1, 0);
	cr_expect(lt(int, piece_is_taken(), 500));
	cr_expect(eq(int, piece_is_taken(), 500));
}

Test(reclaim, pieces_add_up_for_the_first_whatever_another_user_has_waiting)
{
	user_joins(2, 500, 1, 0);
	user_joins(1, 0, 500, QUEUE_PATIENCE_MS);
	places[500].size = 20;
	for (int i = 0; i < 3; i++)
		round_in_vain();
	cr_expect(eq(uint, n_tries[500], 3));
	cr_expect(eq(uint, n_tries_of_all, 3));
	first_waits();
	cr_expect(lt(int, piece_is_taken(), 500));
	cr_expect(lt(int, piece_is_taken(), 500));
	/* Whoever is first now has as much time. */
	queue_leave(&reclaim, &places[500]);
	user_joins(3, 501, 1, QUEUE_PATIENCE_MS);
	places[501].size = 5;
	n_tries[501] = 0;
	round_in_vain();
	cr_expect(eq(uint, n_tries[501], 0));
	first_waits();
	round_in_vain();
	cr_expect(eq(uint, n_tries[501], 1));
}

/* Of those that have waited long, each user's are looked at in turn. */
Test(reclaim, thousand_patient_requests_of_a_user_delay_another_by_no_round)
{
	user_joins(1, 0, N - 2, QUEUE_PATIENCE_MS);
	user_joins(2, N - 2, 2, QUEUE_PATIENCE_MS);
	for (int i = 0; i < N; i++)
		places[i].size = (uint64_t)N - (uint64_t)i;
	first_waits();
	round_in_vain();
	cr_expect(eq(uint, n_tries[N - 2], 1));
	cr_expect(eq(uint, n_tries[N - 1], 1));
	cr_expect(le(uint, n_tries_of_all, N_TRIES));
}

/* ---- waiting for memory that is given back ---- */

static struct registry registry;
static struct owner *alice, *bob;
static struct reclaim_waiter waiters[N];

static void retried(struct reclaim_waiter *waiter)
{
	n_tries[waiter - waiters]++;
	n_tries_of_all++;
	waiter->n_arrived = reclaim_n_arrived(&reclaim, waiter->from);
}

static void users_come(void)
{
	registry_init(&registry);
	alice = owner_get(&registry, 1000, 100);
	bob = owner_get(&registry, 1001, 101);
}

static void users_leave(void)
{
	for (int i = 0; i < N; i++)
		reclaim_leave(&reclaim, &waiters[i]);
	cr_expect(eq(ptr, alice->waiters, NULL));
	cr_expect(eq(ptr, reclaim.holdings, NULL));
	registry_deinit(&registry);
}

/* The try of this request, just now, was in vain. */
static void wait_again(int i)
{
	struct reclaim_waiter *waiter = &waiters[i];

	reclaim_failed(&reclaim, waiter->from.place, waiter->size, waiter->n_arrived);
	reclaim_leave(&reclaim, waiter);
	cr_assert(reclaim_is_worth_waiting(&reclaim, waiter));
	cr_assert(eq(int, reclaim_wait(&reclaim, waiter), 0));
}

static void wait_for(int i, struct owner *owner, struct reclaim_from from, uint64_t size)
{
	waiters[i] = (struct reclaim_waiter){
		.from = from,
		.owner = owner,
		.size = size,
		.retry = retried,
		.n_arrived = reclaim_n_arrived(&reclaim, from),
	};
	cr_assert(reclaim_is_worth_waiting(&reclaim, &waiters[i]));
	cr_assert(eq(int, reclaim_wait(&reclaim, &waiters[i]), 0));
}

static void piece_comes(struct owner *owner)
{
	struct reclaim_from from = { 0, owner };

	reclaim_begin(&reclaim, from);
	reclaim_end(&reclaim, from);
	reclaim_retry(&reclaim, &registry, reclaimed_of(from));
}

static const struct reclaim_from device = { 0, NULL };

/* There is always memory on its way. */
static void much_is_coming(void)
{
	reclaim_begin(&reclaim, (struct reclaim_from){ 0, bob });
}

/* Each try is a call of the driver, and the broker is busy with it. */
Test(reclaim, one_request_of_a_user_tries_at_a_time, .init = users_come,
     .fini = users_leave)
{
	much_is_coming();
	for (int i = 0; i < 10; i++)
		wait_for(i, alice, device, N - i);
	wait_for(10, bob, device, N);
	piece_comes(bob);
	cr_expect(eq(uint, n_tries_of_all, 2));
	cr_expect(eq(uint, n_tries[0], 1));
	cr_expect(eq(uint, n_tries[10], 1), "those of another wait for none of alice's");
	wait_again(0);
	cr_expect(eq(uint, n_tries[1], 1));
	piece_comes(bob);
	cr_expect(eq(uint, n_tries_of_all, 3), "one is trying already");
}

Test(reclaim, what_is_no_smaller_than_one_that_waits_in_vain_is_not_tried,
     .init = users_come, .fini = users_leave)
{
	much_is_coming();
	for (int i = 0; i < N - 1; i++)
		wait_for(i, alice, device, 10);
	wait_for(N - 1, alice, device, 9);
	piece_comes(bob);
	wait_again(0);
	cr_expect(eq(uint, n_tries_of_all, 2));
	cr_expect(eq(uint, n_tries[N - 1], 1));
	wait_again(N - 1);
	cr_expect(eq(uint, n_tries_of_all, 2));
	piece_comes(bob);
	cr_expect(eq(uint, n_tries_of_all, 3), "another piece, another try");
}

/* Their last try has them fail. */
Test(reclaim, all_try_where_no_more_memory_is_to_come, .init = users_come,
     .fini = users_leave)
{
	much_is_coming();
	for (int i = 0; i < 3; i++)
		wait_for(i, alice, device, 10);
	reclaim_postpone(&reclaim, (struct reclaim_from){ 0, bob });
	reclaim_retry(&reclaim, &registry, reclaimed_of(device));
	for (int i = 0; i < 3; i++) {
		cr_expect(eq(uint, n_tries[i], 1));
		reclaim_failed(&reclaim, 0, 10, waiters[i].n_arrived);
		cr_expect(not(reclaim_is_worth_waiting(&reclaim, &waiters[i])));
		reclaim_leave(&reclaim, &waiters[i]);
	}
	cr_expect(eq(uint, n_tries_of_all, 3));
}

Test(reclaim, a_piece_that_came_during_a_try_is_not_missed, .init = users_come,
     .fini = users_leave)
{
	struct reclaim_waiter *waiter = &waiters[0];

	much_is_coming();
	wait_for(0, alice, device, 10);
	piece_comes(bob);
	piece_comes(bob);
	reclaim_leave(&reclaim, waiter);
	cr_assert(eq(int, reclaim_wait(&reclaim, waiter), 0));
	cr_expect(eq(uint, n_tries[0], 2));
}

/* Those who were looked at meanwhile had no use for the piece. */
Test(reclaim, who_missed_a_piece_is_not_behind_those_who_did_not, .init = users_come,
     .fini = users_leave)
{
	much_is_coming();
	wait_for(0, alice, device, 10);
	wait_for(1, alice, device, 40);
	piece_comes(bob);
	piece_comes(bob);
	reclaim_failed(&reclaim, 0, 40, reclaim_n_arrived(&reclaim, device));
	reclaim_leave(&reclaim, &waiters[0]);
	waiters[0].n_arrived--;
	cr_assert(eq(int, reclaim_wait(&reclaim, &waiters[0]), 0));
	cr_expect(eq(uint, n_tries[0], 2));
}

Test(reclaim, who_leaves_while_others_wait_is_not_tried, .init = users_come,
     .fini = users_leave)
{
	much_is_coming();
	for (int i = 0; i < 3; i++)
		wait_for(i, alice, device, 10 - i);
	reclaim_leave(&reclaim, &waiters[0]);
	piece_comes(bob);
	cr_expect(eq(uint, n_tries[0], 0));
	cr_expect(eq(uint, n_tries[1], 1));
	reclaim_leave(&reclaim, &waiters[1]);
	cr_expect(eq(uint, n_tries[2], 1));
}

/* A user's own kernel may hold memory for as long as the user likes. */
Test(reclaim, only_the_holder_waits_for_what_is_held, .init = users_come,
     .fini = users_leave)
{
	const uint64_t holder = holder_of(alice->uid);
	struct held_piece piece = { 0 }, own = { 0 };

	waiters[0] = (struct reclaim_waiter){ .from = device, .owner = alice };
	waiters[1] = (struct reclaim_waiter){ .from = device, .owner = bob };
	waiters[2] = (struct reclaim_waiter){ .from = { 0, alice }, .owner = alice };
	reclaim_hold(&reclaim, &piece, (struct reclaim_from){ 0, bob }, 1, holder);
	cr_expect(reclaim_is_worth_waiting(&reclaim, &waiters[0]));
	cr_expect(not(reclaim_is_worth_waiting(&reclaim, &waiters[1])));
	cr_expect(not(reclaim_is_worth_waiting(&reclaim, &waiters[2])));
	reclaim_hold(&reclaim, &own, (struct reclaim_from){ 0, alice }, 1, holder);
	cr_expect(reclaim_is_worth_waiting(&reclaim, &waiters[2]));
	reclaim_unhold(&reclaim, &piece);
	reclaim_unhold(&reclaim, &own);
	cr_expect(not(reclaim_is_worth_waiting(&reclaim, &waiters[0])));
}

/* An owner with nothing is forgotten, and may come again. */
Test(reclaim, memory_comes_back_after_its_owner_was_forgotten, .init = users_come,
     .fini = users_leave)
{
	struct reclaimed of_forgotten;

	of_forgotten = reclaimed_of((struct reclaim_from){ 0, alice });
	owner_free(&registry, alice);
	reclaim_retry(&reclaim, &registry, of_forgotten);
	alice = owner_get(&registry, 1000, 100);
	reclaim_begin(&reclaim, (struct reclaim_from){ 0, alice });
	reclaim_begin(&reclaim, (struct reclaim_from){ 0, bob });
	wait_for(0, alice, (struct reclaim_from){ 0, alice }, 1);
	wait_for(1, bob, (struct reclaim_from){ 0, bob }, 1);
	reclaim_retry(&reclaim, &registry, of_forgotten);
	cr_expect(eq(uint, n_tries[0], 1));
	cr_expect(eq(uint, n_tries[1], 0));
}
