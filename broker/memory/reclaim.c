/* SPDX-License-Identifier: MIT */
#include "memory/reclaim.h"

#include <utlist.h>

#include "base/number.h"
#include "base/text.h"
#include "model/order.h"
#include "model/owner.h"

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

bool reclaim_wait(struct reclaim *reclaim, struct reclaim_waiter *waiter)
{
	if (!reclaim_is_coming(reclaim, waiter->from, waiter->uid))
		return false;
	LL_APPEND(reclaim->waiters, waiter);
	return true;
}

void reclaim_forget(struct reclaim *reclaim, struct reclaim_waiter *waiter)
{
	LL_DELETE(reclaim->waiters, waiter);
}

void reclaim_retry(struct reclaim *reclaim, pthread_mutex_t *lock,
		   struct reclaim_from from)
{
	struct reclaim_waiter *waiter, *safe, *retry = NULL;

	pthread_mutex_lock(lock);
	LL_FOREACH_SAFE(reclaim->waiters, waiter, safe)
	{
		if (is_wanted(waiter->from, from)) {
			LL_DELETE(reclaim->waiters, waiter);
			waiter->taken(waiter);
			LL_PREPEND(retry, waiter);
		}
	}
	pthread_mutex_unlock(lock);
	LL_FOREACH_SAFE(retry, waiter, safe)
	waiter->retry(waiter);
}
