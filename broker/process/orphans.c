/* SPDX-License-Identifier: MIT */
#include "process/orphans.h"

#include <stdlib.h>
#include <utlist.h>

#include "base/def.h"
#include "memory/block.h"
#include "memory/kept.h"
#include "memory/reclaim.h"
#include "model/allocation.h"
#include "model/order.h"
#include "model/owner.h"
#include "model/registry.h"
#include "process/processes.h"
#include "process/user_lanes.h"
#include "record/records.h"

/* Memory of any place may come with the end of an orphan. */
static struct reclaim_from place_at(uint32_t place)
{
	return (struct reclaim_from){ .place = place };
}

struct orphan *orphan_new(struct broker *broker, uint32_t index,
			  const struct process_record *record, int pidfd)
{
	struct orphan *orphan = calloc(1, sizeof(*orphan));

	if (!orphan)
		return NULL;
	*orphan = (struct orphan){
		.broker = broker,
		.pidfd = pidfd,
		.pid = (pid_t)record->pid,
		.uid = record->owner,
		.busy = record->busy,
		.last_id = broker->registry->next_id[ID_ALLOCATION],
		.mover = record->mover,
		.record = index,
	};
	DL_APPEND(broker->processes->orphans, orphan);
	for (uint32_t place = 0; place < N_PLACES; place++)
		reclaim_begin(broker->reclaim, place_at(place));
	return orphan;
}

struct work *orphan_free(struct orphan *orphan)
{
	struct processes *processes = orphan->broker->processes;

	DL_DELETE(processes->orphans, orphan);
	for (uint32_t place = 0; place < N_PLACES; place++)
		reclaim_end(orphan->broker->reclaim, place_at(place));
	user_close(orphan->broker, orphan->uid, orphan->pidfd,
		   kept_unrecord(orphan->broker->memory, RECORD_PROCESS, orphan->record));
	free(orphan);
	return take_ptr(processes->parked_for_orphans);
}

void orphans_retry(struct broker *broker)
{
	for (uint32_t place = 0; place < N_PLACES; place++)
		reclaim_retry(broker->reclaim, broker->registry,
			      reclaimed_of(place_at(place)));
}

void orphans_note_change(const struct broker *broker, struct allocation *allocation)
{
	if (broker->processes->orphans)
		allocation->orphans_write = true;
}

/* The cell of a later allocation may have been that of a freed one. */
static bool may_have(const struct orphan *orphan, const struct allocation *allocation)
{
	return allocation->id <= orphan->last_id ||
	       (allocation->block && allocation->block->slab);
}

/* Which groups the user is in is not known, so a group that may write counts. */
static bool may_write(const struct orphan *orphan, const struct allocation *allocation)
{
	return orphan->busy && may_have(orphan, allocation) &&
	       kind_is_durable(allocation->kind) &&
	       (orphan->mover || orphan->uid == 0 || allocation->orphans_write ||
		orphan->uid == allocation->owner->uid || allocation->mode & 022);
}

bool orphans_park(struct broker *broker, struct work *work)
{
	struct processes *processes = broker->processes;
	const struct orphan *orphan;

	DL_FOREACH (processes->orphans, orphan) {
		for (unsigned int i = 0; i < work->n_uses; i++) {
			if (!may_write(orphan, work->uses[i].allocation))
				continue;
			LL_PREPEND2(processes->parked_for_orphans, work, next_ready);
			return true;
		}
	}
	return false;
}
