/* SPDX-License-Identifier: MIT */
#include "memory/reclaim.h"

#include <errno.h>
#include <stdlib.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/def.h"
#include "base/number.h"
#include "base/text.h"
#include "model/order.h"
#include "model/owner.h"
#include "model/registry.h"

void reclaim_begin(struct reclaim *reclaim, struct reclaim_from from)
{
	reclaim->n_coming[from.place]++;
	if (from.owner)
		from.owner->n_coming++;
}

void reclaim_end(struct reclaim *reclaim, struct reclaim_from from)
{
	reclaim_postpone(reclaim, from);
	reclaim->n_arrived[from.place]++;
	if (from.owner)
		from.owner->n_arrived++;
}

void reclaim_postpone(struct reclaim *reclaim, struct reclaim_from from)
{
	reclaim->n_coming[from.place]--;
	if (from.owner)
		from.owner->n_coming--;
}

uint64_t reclaim_n_arrived(const struct reclaim *reclaim, struct reclaim_from from)
{
	return from.owner ? from.owner->n_arrived : reclaim->n_arrived[from.place];
}

/* ---- freed memory that users hold ---- */

static struct holdings *holdings_find(const struct reclaim *reclaim, uint64_t holder)
{
	struct holdings *theirs;

	HASH_FIND(hh, reclaim->holdings, &holder, sizeof(holder), theirs);
	return theirs;
}

static struct holdings *holdings_get(struct reclaim *reclaim, uint64_t holder)
{
	struct holdings *theirs = holdings_find(reclaim, holder);

	if (theirs)
		return theirs;
	theirs = calloc(1, sizeof(*theirs));
	if (!theirs)
		return NULL;
	theirs->holder = holder;
	HASH_ADD(hh, reclaim->holdings, holder, sizeof(theirs->holder), theirs);
	return theirs;
}

static bool holdings_are_none(const struct holdings *theirs)
{
	for (uint32_t i = 0; i < N_PLACES; i++)
		if (theirs->n[i])
			return false;
	return true;
}

void reclaim_hold(struct reclaim *reclaim, struct held_piece *piece,
		  struct reclaim_from from, uint64_t size, uint64_t holder)
{
	struct holdings *theirs;

	if (piece->prev)
		return;
	piece->from = from;
	piece->size = size;
	piece->holder = holder;
	DL_APPEND(reclaim->held, piece);
	theirs = holdings_get(reclaim, piece->holder);
	piece->counted = theirs != NULL;
	/* Without memory here the holder's requests do not wait for the piece. */
	if (!theirs)
		return;
	piece->is_own =
		piece->from.owner && piece->holder == holder_of(piece->from.owner->uid);
	theirs->n[piece->from.place]++;
	theirs->n_own += piece->is_own;
}

void reclaim_unhold(struct reclaim *reclaim, struct held_piece *piece)
{
	struct holdings *theirs;

	if (!piece->prev)
		return;
	DL_DELETE(reclaim->held, piece);
	piece->prev = NULL;
	if (!piece->counted)
		return;
	piece->counted = false;
	theirs = holdings_find(reclaim, piece->holder);
	theirs->n[piece->from.place]--;
	theirs->n_own -= piece->is_own;
	if (holdings_are_none(theirs)) {
		HASH_DEL(reclaim->holdings, theirs);
		free(theirs);
	}
}

void text_add_held(struct text *text, const struct reclaim *reclaim, uint32_t device)
{
	const struct held_piece *piece;
	uint64_t holder = HOLDER_NONE, size = 0;

	DL_FOREACH (reclaim->held, piece) {
		if (piece->from.place != device)
			continue;
		holder = size && holder != piece->holder ? HOLDER_SEVERAL : piece->holder;
		size += piece->size;
	}
	if (!size)
		return;
	text_printf(text, "; %s of freed memory are still in use by ", size_text(size));
	if (holder == HOLDER_SEVERAL)
		text_printf(text, "several users");
	else
		text_printf(text, "uid %llu", (unsigned long long)(holder - 1));
}

/* ---- waiting ---- */

static bool waiter_missed(const struct reclaim *reclaim,
			  const struct reclaim_waiter *waiter)
{
	return reclaim_n_arrived(reclaim, waiter->from) != waiter->n_arrived;
}

static bool is_coming_for(const struct reclaim *reclaim,
			  const struct reclaim_waiter *waiter)
{
	struct reclaim_from from = waiter->from;
	const struct holdings *theirs;

	if (from.owner ? from.owner->n_coming : reclaim->n_coming[from.place])
		return true;
	theirs = holdings_find(reclaim, holder_of(waiter->owner->uid));
	return theirs && (from.owner ? theirs->n_own : theirs->n[from.place]);
}

bool reclaim_is_worth_waiting(const struct reclaim *reclaim,
			      const struct reclaim_waiter *waiter)
{
	return waiter_missed(reclaim, waiter) || is_coming_for(reclaim, waiter);
}

static struct waiters *waiters_find(const struct reclaim_waiter *waiter)
{
	struct waiters *waiters;

	DL_FOREACH (waiter->owner->waiters, waiters) {
		if (waiter->from.owner
			    ? waiters->for_own
			    : !waiters->for_own && waiters->place == waiter->from.place)
			return waiters;
	}
	return NULL;
}

static struct waiters *waiters_get(struct reclaim *reclaim,
				   const struct reclaim_waiter *waiter)
{
	struct waiters *waiters = waiters_find(waiter);

	if (waiters)
		return waiters;
	waiters = calloc(1, sizeof(*waiters));
	if (!waiters)
		return NULL;
	waiters->owner = waiter->owner;
	waiters->for_own = waiter->from.owner != NULL;
	waiters->place = waiter->from.place;
	DL_APPEND(waiter->owner->waiters, waiters);
	if (!waiters->for_own)
		DL_APPEND2(reclaim->waiters[waiters->place], waiters, prev_at, next_at);
	return waiters;
}

static void waiters_free_empty(struct reclaim *reclaim, struct waiters *waiters)
{
	if (waiters->list || waiters->trying)
		return;
	DL_DELETE(waiters->owner->waiters, waiters);
	if (!waiters->for_own)
		DL_DELETE2(reclaim->waiters[waiters->place], waiters, prev_at, next_at);
	free(waiters);
}

void reclaim_failed(struct reclaim *reclaim, uint32_t place, uint64_t size,
		    uint64_t n_arrived)
{
	struct in_vain *in_vain = &reclaim->in_vain[place];

	if (n_arrived != reclaim->n_arrived[place])
		return;
	if (in_vain->size && in_vain->n_arrived == n_arrived)
		size = MIN(size, in_vain->size);
	*in_vain = (struct in_vain){ size, n_arrived };
}

/*
 * Whether a try would be in vain, and another piece is still to come: where none is, the
 * last try of a request has it fail.
 */
static bool waiter_can_wait(const struct reclaim *reclaim,
			    const struct reclaim_waiter *waiter)
{
	uint32_t place = waiter->from.place;
	const struct in_vain *in_vain = &reclaim->in_vain[place];

	return !waiter->from.owner && in_vain->size && waiter->size >= in_vain->size &&
	       in_vain->n_arrived == reclaim->n_arrived[place] &&
	       is_coming_for(reclaim, waiter);
}

/* Lets the next one try that was not looked at in this round. */
static void waiters_go_on(struct reclaim *reclaim, struct waiters *waiters)
{
	struct reclaim_waiter *waiter;

	while (!waiters->trying && (waiter = waiters->list) &&
	       waiter->round != waiters->round) {
		DL_DELETE(waiters->list, waiter);
		waiter->round = waiters->round;
		if (waiter_can_wait(reclaim, waiter)) {
			DL_APPEND(waiters->list, waiter);
			continue;
		}
		waiters->trying = waiter;
		waiter->retry(waiter);
	}
}

static void waiters_wake(struct reclaim *reclaim, struct waiters *waiters)
{
	waiters->round++;
	waiters_go_on(reclaim, waiters);
}

int reclaim_wait(struct reclaim *reclaim, struct reclaim_waiter *waiter)
{
	struct waiters *waiters = waiters_get(reclaim, waiter);

	if (!waiters)
		return -ENOMEM;
	waiter->among = waiters;
	if (waiter_missed(reclaim, waiter)) {
		waiter->round = waiters->round - 1;
		DL_PREPEND(waiters->list, waiter);
	} else {
		waiter->round = waiters->round;
		DL_APPEND(waiters->list, waiter);
	}
	waiters_go_on(reclaim, waiters);
	return 0;
}

void reclaim_leave(struct reclaim *reclaim, struct reclaim_waiter *waiter)
{
	struct waiters *waiters = take_ptr(waiter->among);

	if (!waiters)
		return;
	if (waiters->trying == waiter)
		waiters->trying = NULL;
	else
		DL_DELETE(waiters->list, waiter);
	waiters_go_on(reclaim, waiters);
	waiters_free_empty(reclaim, waiters);
}

/* ---- queues ---- */

static struct queue_place *queue_first(const struct queue *queue)
{
	return queue->turns.firsts
		       ? container_of(queue->turns.firsts, struct queue_place, turn)
		       : NULL;
}

/* Another may be the first. */
static void queue_note_first(struct queue *queue)
{
	const struct queue_place *first = queue_first(queue);

	if (!first || (queue->user_since_ms && first->user == queue->user))
		return;
	queue->user = first->user;
	queue->user_since_ms = clock_ms();
}

static bool has_passed(int64_t since_ms, int64_t now)
{
	return now - since_ms >= QUEUE_PATIENCE_MS;
}

static void queue_begin_round(struct queue *queue)
{
	int64_t now = clock_ms();
	struct queue_place *place;

	while ((place = queue->newer) && has_passed(place->since_ms, now)) {
		queue->newer = place->next;
		place->patient = true;
		turns_add(&queue->patient, place->user, &place->patient_turn);
	}
	queue->round++;
	queue->again = false;
	queue->least_failed = UINT64_MAX;
	queue->n_looks = 0;
	queue->at_first = true;
}

/* The place to look at now. NULL: the end. */
static struct queue_place *queue_step(struct queue *queue)
{
	struct queue_place *first = queue_first(queue), *place = first;
	struct turn *turn;

	if (!queue->at_first || !first) {
		turn = queue->patient.firsts;
		if (!turn)
			return NULL;
		place = container_of(turn, struct queue_place, patient_turn);
	}
	queue->at_first = false;
	if (place->patient) {
		turns_remove(&queue->patient, &place->patient_turn);
		turns_add(&queue->patient, place->user, &place->patient_turn);
	}
	return place;
}

/* Whether it need not wait behind the first any more. */
static bool queue_may_pass(const struct queue *queue, const struct queue_place *place,
			   int64_t now)
{
	return place->user == queue->user || has_passed(queue->user_since_ms, now);
}

/* The next one to try, or NULL: the round is over. */
static struct queue_place *queue_find(struct queue *queue)
{
	int64_t now = clock_ms();
	struct queue_place *place;
	bool at_first;

	while (queue->n_looks++ < QUEUE_LOOKS) {
		at_first = queue->at_first;
		place = queue_step(queue);
		if (!place)
			return NULL;
		if (!at_first &&
		    (place->round == queue->round || !queue_may_pass(queue, place, now)))
			continue;
		place->round = queue->round;
		place->missed = place->in_hand;
		if (place->size < queue->least_failed && !place->in_hand)
			return place;
	}
	return NULL;
}

static void queue_try(struct queue_place *place)
{
	place->in_hand = true;
	place->missed = false;
	place->retry(place);
}

/*
 * Lets the next one try, or ends the round. Memory that has arrived is for the first; but
 * where it arrives during each try, those behind take turns with the first.
 */
static void queue_go_on(struct queue *queue)
{
	bool first_tried = queue->trying && queue->trying == queue_first(queue);
	struct queue_place *place;

	if (queue->again && !first_tried)
		queue_begin_round(queue);
	queue->trying = NULL;
	while (!queue->trying) {
		place = queue_find(queue);
		if (!place && !queue->again)
			return;
		if (!place) {
			queue_begin_round(queue);
			continue;
		}
		if (!place->apart)
			queue->trying = place;
		queue_try(place);
	}
}

void queue_wake(struct reclaim *reclaim, uint32_t place)
{
	struct queue *queue = &reclaim->queues[place];

	if (queue->trying) {
		queue->again = true;
		queue->least_failed = UINT64_MAX;
		return;
	}
	queue_begin_round(queue);
	queue_go_on(queue);
}

void queue_join(struct reclaim *reclaim, struct queue_place *place)
{
	struct queue *queue = &reclaim->queues[place->place];

	place->joined = true;
	place->since_ms = clock_ms();
	reclaim->n_queued++;
	DL_APPEND(queue->places, place);
	if (!queue->newer)
		queue->newer = place;
	turns_add(&queue->turns, place->user, &place->turn);
	queue_note_first(queue);
}

void queue_tried(struct reclaim *reclaim, struct queue_place *place)
{
	struct queue *queue = &reclaim->queues[place->place];

	place->in_hand = false;
	if (!place->apart) {
		if (!queue->again)
			queue->least_failed = MIN(queue->least_failed, place->size);
		queue_go_on(queue);
	} else if (place->missed) {
		/* Without a round: two such requests would wake each other for ever. */
		queue_try(place);
	}
}

static void queue_remove(struct queue *queue, struct queue_place *place)
{
	place->joined = place->in_hand = false;
	if (queue->newer == place)
		queue->newer = place->next;
	DL_DELETE(queue->places, place);
	turns_remove(&queue->turns, &place->turn);
	turns_put_last(&queue->turns, place->user);
	if (place->patient)
		turns_remove(&queue->patient, &place->patient_turn);
	place->patient = false;
	if (!queue->places)
		queue->user_since_ms = 0;
	queue_note_first(queue);
}

void queue_leave(struct reclaim *reclaim, struct queue_place *place)
{
	struct queue *queue = &reclaim->queues[place->place];
	bool first = queue_first(queue) == place;

	if (!place->joined)
		return;
	reclaim->n_queued--;
	queue_remove(queue, place);
	if (queue->trying == place) {
		/* Another is the first now, and tries whenever it came. */
		queue->at_first |= first;
		queue_go_on(queue);
	} else if (first) {
		queue_wake(reclaim, place->place);
	}
}

bool queue_is_trying(const struct queue_place *place)
{
	return place->in_hand;
}

struct reclaimed reclaimed_of(struct reclaim_from from)
{
	return (struct reclaimed){
		.place = from.place,
		.uid = from.owner ? from.owner->uid : 0,
		.owned = from.owner != NULL,
	};
}

void reclaim_retry(struct reclaim *reclaim, struct registry *registry,
		   struct reclaimed reclaimed)
{
	struct waiters *waiters;
	struct owner *owner;

	pthread_mutex_lock(&registry->lock);
	owner = reclaimed.owned ? owner_find(registry, reclaimed.uid) : NULL;
	DL_FOREACH (owner ? owner->waiters : NULL, waiters) {
		if (waiters->for_own)
			waiters_wake(reclaim, waiters);
	}
	DL_FOREACH2(reclaim->waiters[reclaimed.place], waiters, next_at)
	{
		waiters_wake(reclaim, waiters);
	}
	queue_wake(reclaim, reclaimed.place);
	pthread_mutex_unlock(&registry->lock);
}
