/* SPDX-License-Identifier: MIT */
/* The processes of the last broker that still end. */
#include "api/resume_private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <unistd.h>
#include <utlist.h>

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
#include "process/processes.h"
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
	struct memory *memory = resume->broker->memory;
	_cleanup_close_ int pidfd = kept_take(memory, RECORD_PROCESS, index);

	/* An older program left no pidfd. Linux killed the process with its broker. */
	if (pidfd < 0) {
		(void)kept_unrecord(memory, RECORD_PROCESS, index);
		return 0;
	}
	if (!orphan_new(resume->broker, index, data, pidfd))
		return resume_fail(resume, -ENOMEM, "process", index);
	(void)take_fd(&pidfd);
	return 0;
}

static void orphan_end(struct orphan *orphan)
{
	const struct awaited end = {
		.fd = orphan->pidfd,
		.events = EPOLLIN,
		.timeout_ms = ORPHAN_MS,
		.done = orphan_ended,
		.userdata = orphan,
	};

	/* Linux does that, but a process may have changed its death signal. */
	(void)pidfd_send_signal(orphan->pidfd, SIGKILL, NULL, 0);
	if (process_has_ended(orphan->pidfd) ||
	    !reaper_add(&orphan->broker->leases->reaper, &end))
		(void)orphan_free(orphan);
}

void resume_end_processes(const struct resume *resume)
{
	struct orphan *orphan, *next;

	DL_FOREACH_SAFE (resume->broker->processes->orphans, orphan, next)
		orphan_end(orphan);
}
