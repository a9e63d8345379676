/* SPDX-License-Identifier: MIT */
#include "memory/reclaim.h"

#include <utlist.h>

void reclaim_begin(struct reclaim *reclaim, uint32_t device)
{
	reclaim->n_coming[device]++;
}

void reclaim_end(struct reclaim *reclaim, uint32_t device)
{
	reclaim->n_coming[device]--;
	reclaim->n_arrived[device]++;
}

void reclaim_postpone(struct reclaim *reclaim, uint32_t device)
{
	reclaim->n_coming[device]--;
}

bool reclaim_wait(struct reclaim *reclaim, struct reclaim_waiter *waiter)
{
	if (!reclaim->n_coming[waiter->device])
		return false;
	LL_APPEND(reclaim->waiters, waiter);
	return true;
}

void reclaim_forget(struct reclaim *reclaim, struct reclaim_waiter *waiter)
{
	LL_DELETE(reclaim->waiters, waiter);
}

void reclaim_retry(struct reclaim *reclaim, pthread_mutex_t *lock, uint32_t device)
{
	struct reclaim_waiter *waiter, *safe, *retry = NULL;

	pthread_mutex_lock(lock);
	LL_FOREACH_SAFE(reclaim->waiters, waiter, safe)
	{
		if (waiter->device == device) {
			LL_DELETE(reclaim->waiters, waiter);
			waiter->taken(waiter);
			LL_PREPEND(retry, waiter);
		}
	}
	pthread_mutex_unlock(lock);
	LL_FOREACH_SAFE(retry, waiter, safe)
	waiter->retry(waiter);
}
