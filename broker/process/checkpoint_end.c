/* SPDX-License-Identifier: MIT */
/*
 * The ends of processes that were given up: who waits for them, and when they are killed.
 */
#include "process/checkpoint_private.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/completion.h"
#include "memory/reclaim.h"
#include "model/order.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"

/*
 * A faulted process does no more work, but its exit keeps the driver busy: contexts made
 * meanwhile take 50 % longer. So the process is killed when the next one has its
 * contexts, or after this time.
 */
#define LINGER_MS 500
/* 128 MiB in a second: a process saves more even where others use the processors. */
#define SAVE_LEAST_PER_MS ((int64_t)128 << 10)

void checkpoint_finish(struct checkpoint *checkpoint)
{
	struct broker *broker = checkpoint->broker;
	struct completion *completion = NULL;
	bool over;

	over = checkpoint->instance_ended && checkpoint->restored;
	if (over) {
		DL_DELETE(broker->processes->checkpoints, checkpoint);
		completion = completion_take(&checkpoint->completion);
		if (checkpoint->charged)
			share_give(checkpoint->worker->owner, SHARE_HOST,
				   checkpoint->charged);
		registry_less_busy(broker->registry);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	if (!over)
		return;
	closep(&checkpoint->restore.fd);
	free(checkpoint->restore.saved);
	free(checkpoint);
	if (completion)
		completion->done(completion, 0, NULL, 0);
}

void checkpoint_hold_memory(struct broker *broker, struct owner *owner)
{
	for (uint32_t i = 0; i < broker->registry->n_devices; i++)
		reclaim_begin(broker->reclaim, (struct reclaim_from){ i, owner });
}

static void checkpoint_release_memory(struct broker *broker, struct owner *owner)
{
	for (uint32_t i = 0; i < broker->registry->n_devices; i++)
		reclaim_end(broker->reclaim, (struct reclaim_from){ i, owner });
}

/* Under registry.lock. */
static void checkpoint_kill(struct checkpoint *checkpoint)
{
	if (checkpoint->channel && !checkpoint->killed)
		channel_kill(checkpoint->channel);
	checkpoint->killed = true;
}

/* Whether the process is the worker's, has this epoch or an earlier one, and lives. */
static bool is_waited_for(const struct checkpoint *checkpoint,
			  const struct worker *worker, uint32_t epoch)
{
	return checkpoint->worker == worker && !checkpoint->instance_ended &&
	       (int32_t)(epoch - checkpoint->epoch) >= 0;
}

/* The first process that was given up and is waited for. NULL: none. */
static struct checkpoint *checkpoint_find(const struct worker *worker, uint32_t epoch)
{
	struct checkpoint *checkpoint;

	DL_FOREACH (worker->broker->processes->checkpoints, checkpoint) {
		if (is_waited_for(checkpoint, worker, epoch))
			return checkpoint;
	}
	return NULL;
}

bool checkpoint_lives(struct worker *worker)
{
	return checkpoint_find(worker, worker_newest_epoch(worker)) != NULL;
}

bool checkpoint_park_until_end(const struct worker *worker, uint32_t epoch,
			       struct work *work)
{
	struct checkpoint *checkpoint = checkpoint_find(worker, epoch);

	if (checkpoint)
		LL_PREPEND2(checkpoint->parked, work, next_ready);
	return checkpoint != NULL;
}

/* Returns: whether there is one to wait for. Under registry.lock. */
static bool wait_until_end(const struct worker *worker, struct until_end *until)
{
	struct checkpoint *checkpoint = checkpoint_find(worker, until->epoch);

	until->waits = checkpoint != NULL;
	if (until->waits)
		LL_PREPEND(checkpoint->waiting, until);
	return until->waits;
}

bool checkpoint_wait_until_end(const struct worker *worker, uint32_t epoch,
			       struct until_end *until)
{
	until->epoch = epoch;
	return !until->waits && wait_until_end(worker, until);
}

/* A process of theirs has ended. No lock held. */
static void end_waits(struct broker *broker, struct worker *worker,
		      struct until_end *waiting)
{
	struct until_end *until;
	bool waits;

	while ((until = waiting)) {
		waiting = until->next;
		pthread_mutex_lock(&broker->registry->lock);
		waits = wait_until_end(worker, until);
		pthread_mutex_unlock(&broker->registry->lock);
		if (!waits)
			until->ended(until);
	}
}

void checkpoint_run_ended(struct broker *broker, struct worker *worker, uint32_t epoch)
{
	struct until_end *waiting;
	struct checkpoint *checkpoint;
	struct work *parked;

	pthread_mutex_lock(&broker->registry->lock);
	DL_FOREACH (broker->processes->checkpoints, checkpoint) {
		if (checkpoint->worker == worker && checkpoint->epoch == epoch)
			break;
	}
	if (!checkpoint) {
		pthread_mutex_unlock(&broker->registry->lock);
		return;
	}
	checkpoint->channel = NULL;
	checkpoint->instance_ended = true;
	parked = take_ptr(checkpoint->parked);
	waiting = take_ptr(checkpoint->waiting);
	checkpoint_release_memory(broker, worker->owner);
	checkpoint_finish(checkpoint);
	broker->processes->resume(parked);
	end_waits(broker, worker, waiting);
	for (uint32_t i = 0; i < broker->registry->n_devices; i++)
		reclaim_retry(broker->reclaim, broker->registry,
			      reclaimed_of((struct reclaim_from){ i, worker->owner }));
}

/* ---- time limits ---- */

/*
 * A user may stop the own process, and let it run for moments: it saves slowly then. The
 * time begins when the broker has noted all that is to be saved.
 */
static bool is_stuck(const struct checkpoint *checkpoint, unsigned int ms)
{
	int64_t slow_ms = clock_ms() - checkpoint->saving_ms - ms;
	struct stat file = { 0 };

	if (checkpoint->taking || slow_ms < 0)
		return false;
	if (checkpoint->restore.fd >= 0)
		(void)fstat(checkpoint->restore.fd, &file);
	return file.st_blocks * 512 <= slow_ms * SAVE_LEAST_PER_MS;
}

bool checkpoint_hurry_stuck(const struct worker *worker, uint32_t epoch, unsigned int ms)
{
	struct checkpoint *checkpoint;
	bool goes_on = false;

	DL_FOREACH (worker->broker->processes->checkpoints, checkpoint) {
		if (!is_waited_for(checkpoint, worker, epoch))
			continue;
		if (is_stuck(checkpoint, ms))
			checkpoint_kill(checkpoint);
		else
			goes_on = true;
	}
	return goes_on;
}

void checkpoint_let_go(struct checkpoint *checkpoint)
{
	checkpoint->let_go = true;
	if (!checkpoint->lingers) {
		checkpoint_kill(checkpoint);
		return;
	}
	checkpoint->deadline_ms = clock_ms() + LINGER_MS;
	broker_wake_housekeeper(checkpoint->broker);
}

void checkpoint_run_ready(struct broker *broker, struct worker *worker)
{
	struct checkpoint *checkpoint;

	pthread_mutex_lock(&broker->registry->lock);
	DL_FOREACH (broker->processes->checkpoints, checkpoint) {
		if (checkpoint->worker != worker || !checkpoint->lingers)
			continue;
		checkpoint->lingers = false;
		/* Otherwise the process is still saving. */
		if (checkpoint->let_go)
			checkpoint_kill(checkpoint);
	}
	pthread_mutex_unlock(&broker->registry->lock);
}

int64_t checkpoint_check_limits(struct broker *broker)
{
	int64_t now = clock_ms(), next = -1;
	struct checkpoint *checkpoint;

	pthread_mutex_lock(&broker->registry->lock);
	DL_FOREACH (broker->processes->checkpoints, checkpoint) {
		if (!checkpoint->channel || checkpoint->killed || checkpoint->taking)
			continue;
		if (checkpoint->deadline_ms <= now ||
		    (checkpoint->let_go && broker->registry->shutting_down))
			checkpoint_kill(checkpoint);
		else if (next < 0 || checkpoint->deadline_ms - now < next)
			next = checkpoint->deadline_ms - now;
	}
	pthread_mutex_unlock(&broker->registry->lock);
	return next;
}
