/* SPDX-License-Identifier: MIT */
#include "process/staging_slot.h"

#include <utlist.h>

#include "base/def.h"
#include "process/worker.h"

bool staging_slot_try(struct worker *worker, struct slot_waiter *waiter)
{
	int slot;

	pthread_mutex_lock(&worker->lock);
	slot = staging_get(&worker->staging);
	pthread_mutex_unlock(&worker->lock);
	waiter->slot = MAX(slot, -1);
	return slot >= 0;
}

/* The first waiters of all payers are a list, and the others are behind them. */
static void waiter_queue(struct worker *worker, struct slot_waiter *waiter)
{
	struct slot_waiter *first;

	DL_FOREACH (worker->slot_waiters, first) {
		if (first->payer == waiter->payer)
			break;
	}
	if (first)
		DL_APPEND(first->behind, waiter);
	else
		DL_APPEND(worker->slot_waiters, waiter);
}

/* The payer's next waiter comes after those of all others. Returns: NULL: none waits. */
static struct slot_waiter *waiter_next(struct worker *worker)
{
	struct slot_waiter *waiter = worker->slot_waiters, *next;

	if (!waiter)
		return NULL;
	DL_DELETE(worker->slot_waiters, waiter);
	next = waiter->behind;
	if (next) {
		DL_DELETE(waiter->behind, next);
		next->behind = take_ptr(waiter->behind);
		DL_APPEND(worker->slot_waiters, next);
	}
	return waiter;
}

bool staging_slot_get(struct worker *worker, struct slot_waiter *waiter,
		      const struct owner *payer)
{
	bool got;
	int slot;

	waiter->payer = payer;
	waiter->behind = NULL;
	pthread_mutex_lock(&worker->lock);
	slot = staging_get(&worker->staging);
	got = slot >= 0;
	if (got)
		waiter->slot = slot;
	else
		waiter_queue(worker, waiter);
	pthread_mutex_unlock(&worker->lock);
	return got;
}

struct slot_waiter *staging_slot_put(struct worker *worker, unsigned int slot)
{
	struct slot_waiter *waiter;

	pthread_mutex_lock(&worker->lock);
	waiter = waiter_next(worker);
	if (waiter)
		waiter->slot = (int)slot;
	else
		staging_put(&worker->staging, slot);
	pthread_mutex_unlock(&worker->lock);
	return waiter;
}
