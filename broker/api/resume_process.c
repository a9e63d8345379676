/* SPDX-License-Identifier: MIT */
/* The processes of the last broker that still end. */
#include "api/resume_private.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "base/process.h"
#include "base/warning.h"
#include "memops/lease.h"
#include "memops/reaper.h"
#include "memory/kept.h"
#include "model/journal.h"
#include "model/registry.h"
#include "op/op.h"
#include "process/broker.h"
#include "process/orphans.h"
#include "process/user_lanes.h"
#include "record/records.h"

/*
 * On an H200 a process ends within 0.2 s. A process that Linux can't end would keep its
 * owner's memory from use until the machine's restart, so the wait has an end.
 */
#define ORPHAN_MS 5000

static void orphan_tell_left(const struct orphan *orphan)
{
	char object[32];

	snprintf(object, sizeof(object), orphan->mover ? "mover" : "owners/%u/worker",
		 orphan->uid);
	warnings_add(
		orphan->broker->journal->warnings,
		orphan->mover ? WARNING_MOVER_ENDED : WARNING_WORKER_ENDED, orphan->uid,
		object,
		"process %d of the broker before, %s of uid %u, has not ended within "
		"%d s: what it runs may still change memory",
		orphan->pid, orphan->mover ? "the mover" : "the worker", orphan->uid,
		ORPHAN_MS / 1000);
}

static void orphan_ended(void *userdata)
{
	struct orphan *orphan = userdata;
	struct broker *broker = orphan->broker;
	struct registry *registry = broker->registry;
	struct work *parked;

	pthread_mutex_lock(&registry->lock);
	if (!process_has_ended(orphan->pidfd) && !registry->shutting_down)
		orphan_tell_left(orphan);
	parked = orphan_free(orphan);
	pthread_mutex_unlock(&registry->lock);
	op_resume(parked);
	orphans_retry(broker);
}

int resume_process(struct resume *resume, uint32_t index, const void *data)
{
	struct broker *broker = resume->broker;
	_cleanup_close_ int pidfd = kept_take(broker->memory, RECORD_PROCESS, index);
	const struct process_record *record = data;
	struct orphan *orphan;

	/* An older program left no pidfd. Linux killed the process with its broker. */
	if (pidfd < 0 || process_has_ended(pidfd)) {
		user_close(broker, record->owner, take_fd(&pidfd),
			   kept_unrecord(broker->memory, RECORD_PROCESS, index));
		return 0;
	}
	orphan = orphan_new(broker, index, record, pidfd);
	if (!orphan)
		return resume_fail(resume, -ENOMEM, "process", index);
	(void)take_fd(&pidfd);
	if (!reaper_add(&broker->leases->reaper, &(struct awaited){
							 .fd = orphan->pidfd,
							 .events = EPOLLIN,
							 .timeout_ms = ORPHAN_MS,
							 .done = orphan_ended,
							 .userdata = orphan,
						 }))
		(void)orphan_free(orphan);
	return 0;
}
