/* SPDX-License-Identifier: MIT */
/* Tells programs with leases that the text of their lease has changed. */
#include "memops/lease_private.h"

#include <utlist.h>

#include "memops/lease.h"
#include "model/allocation.h"
#include "model/registry.h"
#include "process/broker.h"

#define TOLD_AT_ONCE 64 /* leases of an allocation, under the lock */

void lease_notify(struct lease *lease)
{
	if (!lease->changed) {
		lease->changed = true;
		lease_save(lease);
	}
	if (!lease->closed && lease->wake)
		lease->wake(lease->userdata);
}

void leases_tell_untold(struct allocation *allocation, struct lease *added)
{
	struct lease *lease;

	if (allocation->rare->n_leases <= TOLD_AT_ONCE)
		return;
	added->changed = true;
	if (allocation->rare->n_leases > TOLD_AT_ONCE + 1)
		return;
	DL_FOREACH (allocation->rare->leases, lease)
		lease->changed = true;
}

/* ---- of many leases, by the work queue ---- */

/* Whether the lease's allocation or a folder above has a later change than that number.
 */
static bool lease_has_change(const struct lease *lease, uint64_t after)
{
	const struct allocation *allocation = lease->allocation;
	const struct folder *folder;

	if (!allocation)
		return false;
	folder = allocation->entry.folder;
	while (folder && folder->n_renamed <= after)
		folder = folder->entry.folder;
	return folder || allocation->rare->n_changed > after;
}

bool lease_is_untold(const struct lease *lease)
{
	return lease_has_change(lease, lease->broker->leases->n_noted);
}

static void lease_note_changes(struct lease *lease, void *userdata)
{
	const uint64_t *after = userdata;

	if (lease_has_change(lease, *after))
		lease_notify(lease);
}

void leases_tell(struct task *note)
{
	struct leases *leases = container_of(note, struct leases, note);
	struct registry *registry = leases->broker->registry;
	uint64_t after, last;

	pthread_mutex_lock(&registry->lock);
	after = leases->n_noted;
	last = leases->n_changes;
	pthread_mutex_unlock(&registry->lock);
	leases_walk(leases->broker, lease_note_changes, &after);
	pthread_mutex_lock(&registry->lock);
	leases->n_noted = last;
	leases->noting = leases->n_changes > leases->n_noted;
	if (leases->noting)
		workqueue_add(leases->broker->workqueue, 0, note);
	else
		registry_less_busy(registry);
	pthread_mutex_unlock(&registry->lock);
}

/* Has the work queue tell leases of a change. Returns: the change's number. */
static uint64_t leases_note_soon(struct broker *broker)
{
	struct leases *leases = broker->leases;

	leases->n_changes++;
	if (leases->noting)
		return leases->n_changes;
	leases->noting = leases->by_id;
	if (leases->noting) {
		broker->registry->n_busy++;
		workqueue_add(broker->workqueue, 0, &leases->note);
	} else {
		leases->n_noted = leases->n_changes;
	}
	return leases->n_changes;
}

void leases_note_changed(struct broker *broker, struct allocation *allocation)
{
	struct lease *lease;

	if (allocation->rare->n_leases > TOLD_AT_ONCE) {
		allocation->rare->n_changed = leases_note_soon(broker);
		return;
	}
	DL_FOREACH (allocation->rare->leases, lease)
		lease_notify(lease);
}

void leases_note_renamed(struct broker *broker, struct folder *folder)
{
	folder->n_renamed = leases_note_soon(broker);
}
