/* SPDX-License-Identifier: MIT */
/*
 * Along all leases of the broker, of which there may be tens of thousands.
 * lease_leave_list() moves the cursors at a lease that leaves the list.
 */
#include <utlist.h>

#include "memops/lease.h"
#include "memops/lease_private.h"
#include "model/registry.h"
#include "process/broker.h"

/* Leases looked at before others get the lock. */
#define PIECE 256

void leases_walk(struct broker *broker, void (*look)(struct lease *lease, void *userdata),
		 void *userdata)
{
	struct lease_cursor cursor = { .last_id = UINT64_MAX };
	unsigned int n_looks = 0;
	struct lease *lease;

	pthread_mutex_lock(&broker->registry->lock);
	cursor.last_id = broker->leases->n_ever;
	cursor.next = broker->leases->by_id;
	LL_PREPEND2(broker->leases->cursors, &cursor, le_next);
	while ((lease = cursor.next) && lease->id <= cursor.last_id) {
		cursor.next = lease->hh.next;
		look(lease, userdata);
		if (++n_looks % PIECE == 0)
			registry_let_others(broker->registry);
	}
	LL_DELETE2(broker->leases->cursors, &cursor, le_next);
	pthread_mutex_unlock(&broker->registry->lock);
}
