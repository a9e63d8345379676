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

bool staging_slot_get(struct worker *worker, struct slot_waiter *waiter)
{
	bool got;
	int slot;

	pthread_mutex_lock(&worker->lock);
	slot = staging_get(&worker->staging);
	got = slot >= 0;
	if (got)
		waiter->slot = slot;
	else
		DL_APPEND(worker->slot_waiters, waiter);
	pthread_mutex_unlock(&worker->lock);
	return got;
}

struct slot_waiter *staging_slot_put(struct worker *worker, unsigned int slot)
{
	struct slot_waiter *waiter;

	pthread_mutex_lock(&worker->lock);
	waiter = worker->slot_waiters;
	if (waiter) {
		DL_DELETE(worker->slot_waiters, waiter);
		waiter->slot = (int)slot;
	} else {
		staging_put(&worker->staging, slot);
	}
	pthread_mutex_unlock(&worker->lock);
	return waiter;
}
