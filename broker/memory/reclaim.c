/* SPDX-License-Identifier: MIT */
#include "memory/reclaim.h"

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

void reclaim_hold(struct reclaim *reclaim, struct held_piece *piece)
{
	if (!piece->prev)
		DL_APPEND(reclaim->held, piece);
}

void reclaim_unhold(struct reclaim *reclaim, struct held_piece *piece)
{
	if (piece->prev)
		DL_DELETE(reclaim->held, piece);
	piece->prev = NULL;
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

/* Whether memory is what is waited for. */
static bool is_wanted(struct reclaim_from wanted, struct reclaim_from from)
{
	return wanted.owner ? wanted.owner == from.owner : wanted.place == from.place;
}

bool reclaim_is_coming(const struct reclaim *reclaim, struct reclaim_from from, uid_t uid)
{
	const struct held_piece *piece;

	if (from.owner ? from.owner->n_coming : reclaim->n_coming[from.place])
		return true;
	DL_FOREACH (reclaim->held, piece) {
		if (is_wanted(from, piece->from) && piece->holder == holder_of(uid))
			return true;
	}
	return false;
}

/* Those who wait for the owner's memory if there is one, else for memory of the place. */
static struct reclaim_waiter **waiters_for(struct reclaim *reclaim,
					   struct reclaim_from from)
{
	return from.owner ? &from.owner->waiters : &reclaim->waiters[from.place];
}

bool reclaim_wait(struct reclaim *reclaim, struct reclaim_waiter *waiter)
{
	if (!reclaim_is_coming(reclaim, waiter->from, waiter->uid))
		return false;
	DL_APPEND(*waiters_for(reclaim, waiter->from), waiter);
	return true;
}

void reclaim_forget(struct reclaim *reclaim, struct reclaim_waiter *waiter)
{
	DL_DELETE(*waiters_for(reclaim, waiter->from), waiter);
}

/* ---- queues ---- */

static void queue_begin_round(struct queue *queue)
{
	/* A round that did not use up its looks has come to the end. */
	if (queue->n_looks <= QUEUE_LOOKS)
		queue->next = NULL;
	queue->again = false;
	queue->least_failed = UINT64_MAX;
	queue->n_looks = 0;
	queue->at_first = true;
}

/* The place to look at now. NULL: the end. */
static struct queue_place *queue_step(struct queue *queue)
{
	struct queue_place *first = queue->places, *place;

	if (queue->at_first && first) {
		queue->at_first = false;
		if (!queue->next || queue->next == first)
			queue->next = first->next;
		return first;
	}
	place = queue->next;
	queue->next = place ? place->next : NULL;
	return place;
}

/* Lets the next one try, or ends the round. */
static void queue_go_on(struct queue *queue)
{
	int64_t now = clock_ms();
	struct queue_place *place;

	if (queue->again)
		queue_begin_round(queue);
	queue->trying = NULL;
	while (queue->n_looks++ < QUEUE_LOOKS && (place = queue_step(queue))) {
		if (place != queue->places && now - place->since_ms < QUEUE_PATIENCE_MS) {
			/* Those behind came later still. */
			queue->next = NULL;
			return;
		}
		place->missed = place->in_hand;
		if (place->size >= queue->least_failed || place->in_hand)
			continue;
		place->in_hand = true;
		if (!place->apart)
			queue->trying = place;
		place->retry(place);
		if (!place->apart)
			return;
	}
}

void queue_wake(struct reclaim *reclaim, uint32_t place)
{
	struct queue *queue = &reclaim->queues[place];

	if (queue->trying) {
		queue->again = true;
		return;
	}
	queue_begin_round(queue);
	queue_go_on(queue);
}

void queue_join(struct reclaim *reclaim, struct queue_place *place)
{
	place->joined = true;
	place->since_ms = clock_ms();
	reclaim->n_queued++;
	DL_APPEND(reclaim->queues[place->place].places, place);
}

void queue_tried(struct reclaim *reclaim, struct queue_place *place)
{
	struct queue *queue = &reclaim->queues[place->place];

	place->in_hand = false;
	if (!place->apart) {
		queue->least_failed = MIN(queue->least_failed, place->size);
		queue_go_on(queue);
	} else if (place->missed) {
		queue_wake(reclaim, place->place);
	}
}

void queue_leave(struct reclaim *reclaim, struct queue_place *place)
{
	struct queue *queue = &reclaim->queues[place->place];
	bool first = queue->places == place;

	if (!place->joined)
		return;
	place->joined = place->in_hand = false;
	reclaim->n_queued--;
	if (queue->next == place)
		queue->next = place->next;
	DL_DELETE(queue->places, place);
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

/* Moves all waiters of a list to `retry`. */
static void waiters_take(struct reclaim_waiter **waiters, struct reclaim_waiter **retry)
{
	struct reclaim_waiter *taken = take_ptr(*waiters), *waiter;

	DL_FOREACH (taken, waiter)
		waiter->taken(waiter);
	DL_CONCAT(*retry, taken);
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
	struct reclaim_waiter *waiter, *safe, *retry = NULL;
	struct owner *owner;

	pthread_mutex_lock(&registry->lock);
	owner = reclaimed.owned ? owner_find(registry, reclaimed.uid) : NULL;
	if (owner)
		waiters_take(&owner->waiters, &retry);
	waiters_take(&reclaim->waiters[reclaimed.place], &retry);
	queue_wake(reclaim, reclaimed.place);
	pthread_mutex_unlock(&registry->lock);
	DL_FOREACH_SAFE (retry, waiter, safe)
		waiter->retry(waiter);
}
