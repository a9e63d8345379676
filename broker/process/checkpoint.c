/* SPDX-License-Identifier: MIT */
#include "process/checkpoint_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/completion.h"
#include "base/text.h"
#include "cuda/failure.h"
#include "cuda/result.h"
#include "memory/block.h"
#include "memory/reclaim.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/order.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"

/* Time limit for saving: a constant, plus an amount for each GiB. */
#define SAVE_MS		5000
#define SAVE_MS_PER_GIB 2000
#define SAVE_ALIGN	4096 /* alignment in the file */
/* So many allocations are noted at once, before others have the lock. */
#define TAKEN_AT_ONCE 256

static void save_next(struct checkpoint *checkpoint, struct channel *channel);

/* ---- what is saved ---- */

/* The checkpoint of the process, as long as it notes what to save. NULL: none. */
static struct checkpoint *checkpoint_find_taking(const struct worker *worker,
						 uint32_t epoch)
{
	struct checkpoint *checkpoint;

	DL_FOREACH (worker->broker->processes->checkpoints, checkpoint) {
		if (checkpoint->worker == worker && checkpoint->epoch == epoch &&
		    checkpoint->taking)
			return checkpoint;
	}
	return NULL;
}

bool checkpoint_is_taking(const struct worker *worker, uint32_t epoch)
{
	return checkpoint_find_taking(worker, epoch) != NULL;
}

static void checkpoint_keep(struct checkpoint *checkpoint, struct allocation *allocation)
{
	allocation->restoring = true;
	allocation_leave_worker(allocation);
	checkpoint->restore.saved[checkpoint->restore.n_saved++] = (struct saved){
		.allocation = allocation,
		.address = allocation->address,
		.offset = checkpoint->size,
	};
	checkpoint->size += align_up(allocation->size, SAVE_ALIGN);
}

bool checkpoint_keeps(struct allocation *allocation)
{
	struct checkpoint *checkpoint;

	if (allocation->restoring)
		return true;
	if (!allocation->managed || allocation->state != ALLOCATION_LIVE ||
	    !allocation->owner->worker)
		return false;
	checkpoint = checkpoint_find_taking(allocation->owner->worker,
					    allocation->worker_epoch);
	if (checkpoint)
		checkpoint_keep(checkpoint, allocation);
	return checkpoint != NULL;
}

/* ---- parked works ---- */

bool checkpoint_park(struct work *work)
{
	for (unsigned int i = 0; i < work->n_uses; i++) {
		struct allocation *allocation = work->uses[i].allocation;

		if (!checkpoint_keeps(allocation))
			continue;
		LL_PREPEND2(allocation->managed->parked, work, next_ready);
		return true;
	}
	return false;
}

/* ---- saving ---- */

static void save_end(struct checkpoint *checkpoint)
{
	struct broker *broker = checkpoint->broker;

	pthread_mutex_lock(&broker->registry->lock);
	checkpoint_let_go(checkpoint);
	pthread_mutex_unlock(&broker->registry->lock);
	restore_begin(&checkpoint->restore);
}

static void save_replied(struct request *request, const struct wire_reply *reply,
			 bool lost)
{
	struct checkpoint *checkpoint = container_of(request, struct checkpoint, request);
	struct channel *channel;

	pthread_mutex_lock(&checkpoint->broker->registry->lock);
	channel = checkpoint->channel;
	pthread_mutex_unlock(&checkpoint->broker->registry->lock);
	checkpoint->restore.saved[checkpoint->n_written++].good = !lost && !reply->error;
	if (lost || checkpoint->n_written == checkpoint->restore.n_saved)
		save_end(checkpoint);
	else
		save_next(checkpoint, channel);
}

/*
 * The channel must not be freed meanwhile: called under registry.lock, or by the thread
 * that received a reply on this channel. A channel killed meanwhile replies as lost.
 */
static void save_next(struct checkpoint *checkpoint, struct channel *channel)
{
	const struct saved *saved = &checkpoint->restore.saved[checkpoint->n_written];

	checkpoint->request = (struct request){
		.record = {
			.op = WIRE_SAVE,
			.address = saved->address,
			.length = saved->allocation->size,
			.source = saved->offset,
		},
		.fd = fcntl(checkpoint->restore.fd, F_DUPFD_CLOEXEC, 3),
		.done = save_replied,
	};
	channel_send(channel, &checkpoint->request);
}

/* ---- the beginning ---- */

/* Makes a file of that size, in memory of the worker's owner. */
static int save_file(struct checkpoint *checkpoint, uint64_t size)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (!host_has_room(size))
		return -ENOMEM;
	r = share_take(checkpoint->worker->owner, SHARE_HOST, size);
	if (r < 0)
		return r;
	checkpoint->charged = size;
	fd = memfd_create("gpumem-saved", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	return take_fd(&fd);
}

/*
 * Notes the next allocations to save and marks the others as lost. Returns: whether it
 * has come to the end.
 */
static bool checkpoint_take(struct checkpoint *checkpoint)
{
	struct allocation *allocation;

	for (unsigned int n = 0; n < TAKEN_AT_ONCE; n++) {
		allocation = worker_walk_next(&checkpoint->walk);
		if (!allocation)
			return true;
		if (allocation->worker_epoch != checkpoint->epoch)
			continue;
		if (allocation->managed)
			checkpoint_keep(checkpoint, allocation);
		else
			worker_lose_allocation(checkpoint->broker, allocation,
					       checkpoint->reason, &checkpoint->loss);
	}
	return false;
}

/*
 * There is no memory for the file: marks all allocations as lost. Returns: works that
 * were parked.
 */
static struct work *checkpoint_drop(struct checkpoint *checkpoint, int error)
{
	struct work *parked = NULL;
	char why[sizeof(checkpoint->reason) + 256];
	_cleanup_text_ struct text limit = TEXT_INIT;
	struct loss loss = { 0 };

	if (error == -EDQUOT)
		share_explain(checkpoint->worker->owner, &limit);
	snprintf(why, sizeof(why), "%s, and %s%s", checkpoint->reason,
		 limit.length ? "there was no room for a copy: "
			      : "the host has no memory left to keep it",
		 text_string(&limit));
	while (checkpoint->restore.n_saved) {
		struct allocation *allocation =
			checkpoint->restore.saved[--checkpoint->restore.n_saved]
				.allocation;

		allocation->restoring = false;
		worker_lose_allocation(checkpoint->broker, allocation, why, &loss);
		/* In front: there may be thousands already. */
		LL_CONCAT2(allocation->managed->parked, parked, next_ready);
		parked = take_ptr(allocation->managed->parked);
		/* The first piece has less: its caller does not let others. */
		if (checkpoint->restore.n_saved % TAKEN_AT_ONCE == TAKEN_AT_ONCE - 1)
			registry_let_others(checkpoint->broker->registry);
	}
	loss_tell(checkpoint->broker, checkpoint->worker->owner, &loss, why);
	return parked;
}

/*
 * All is noted: begins to save, if there is what to save. Returns: works that were parked
 * and have nothing to wait for.
 */
static struct work *checkpoint_taken(struct checkpoint *checkpoint)
{
	struct restore *restore = &checkpoint->restore;
	struct work *parked = NULL;

	worker_walk_end(&checkpoint->walk);
	loss_tell(checkpoint->broker, checkpoint->worker->owner, &checkpoint->loss,
		  checkpoint->reason);
	if (checkpoint->size)
		restore->fd = save_file(checkpoint, checkpoint->size);
	if (checkpoint->size && restore->fd < 0)
		parked = checkpoint_drop(checkpoint, restore->fd);
	checkpoint->taking = false;
	checkpoint->saving_ms = clock_ms();
	if (!restore->n_saved) {
		checkpoint_let_go(checkpoint);
		checkpoint->restored = true;
		return parked;
	}
	checkpoint->deadline_ms =
		clock_ms() + SAVE_MS +
		(int64_t)(checkpoint->size >> 20) * SAVE_MS_PER_GIB / 1024;
	broker_wake_housekeeper(checkpoint->broker);
	if (checkpoint->channel)
		save_next(checkpoint, checkpoint->channel);
	return parked;
}

static void checkpoint_take_rest(struct task *task)
{
	struct checkpoint *checkpoint = container_of(task, struct checkpoint, rest);
	struct broker *broker = checkpoint->broker;
	struct work *parked;

	pthread_mutex_lock(&broker->registry->lock);
	while (!checkpoint_take(checkpoint))
		registry_let_others(broker->registry);
	parked = checkpoint_taken(checkpoint);
	if (checkpoint->restored || checkpoint->channel) {
		checkpoint_finish(checkpoint);
	} else {
		/* The process has ended meanwhile: nothing can be saved. */
		pthread_mutex_unlock(&broker->registry->lock);
		save_end(checkpoint);
	}
	broker->processes->resume(parked);
}

/*
 * Callers hold on to what the lock guards, so a process with many allocations leaves the
 * rest to the work queue, which lets others have the lock.
 */
static void checkpoint_begin_to_take(struct checkpoint *checkpoint)
{
	struct worker *worker = checkpoint->worker;

	checkpoint->taking = true;
	worker_walk_begin(&checkpoint->walk, worker->owner);
	if (checkpoint_take(checkpoint)) {
		(void)checkpoint_taken(checkpoint);
		return;
	}
	checkpoint->rest = (struct task){
		.run = checkpoint_take_rest,
		.length = TASK_LONG,
	};
	workqueue_add(checkpoint->broker->workqueue, worker->owner->uid,
		      &checkpoint->rest);
}

static void checkpoint_restored(struct restore *restore)
{
	struct checkpoint *checkpoint = container_of(restore, struct checkpoint, restore);

	pthread_mutex_lock(&checkpoint->broker->registry->lock);
	checkpoint->restored = true;
	checkpoint_finish(checkpoint);
}

static struct checkpoint *checkpoint_new(struct broker *broker, struct worker *worker,
					 uint32_t epoch, const char *reason,
					 struct completion *completion)
{
	struct checkpoint *checkpoint = calloc(1, sizeof(*checkpoint));

	if (!checkpoint)
		return NULL;
	checkpoint->broker = broker;
	checkpoint->worker = worker;
	checkpoint->epoch = epoch;
	checkpoint->restore = (struct restore){
		.broker = broker,
		.worker = worker,
		.reason = checkpoint->reason,
		.done = checkpoint_restored,
		.fd = -1,
	};
	snprintf(checkpoint->reason, sizeof(checkpoint->reason), "%s", reason);
	checkpoint->restore.saved =
		calloc(worker->owner ? worker->owner->n_in_worker + 1 : 1,
		       sizeof(*checkpoint->restore.saved));
	if (!checkpoint->restore.saved) {
		free(checkpoint);
		return NULL;
	}
	/* After a signal the worker is still ended, and the line succeeds. */
	if (completion)
		completion_hold(completion, &checkpoint->completion, completion_let_go);
	return checkpoint;
}

/* faulted: the contexts are lost, so the process does nothing any more. */
static bool instance_give_up(struct broker *broker, struct worker *worker, uint32_t epoch,
			     const char *reason, int error, bool faulted,
			     struct completion *completion)
{
	struct channel *channel =
		worker_abandon(worker, epoch, reason, error, completion != NULL);
	struct checkpoint *checkpoint;

	if (!channel)
		return false;
	checkpoint = checkpoint_new(broker, worker, epoch, reason, completion);
	/* Without memory for the checkpoint, all is lost at the end of the process. */
	if (!checkpoint) {
		channel_kill(channel);
		return false;
	}
	broker->registry->n_busy++;
	DL_APPEND(broker->processes->checkpoints, checkpoint);
	checkpoint_hold_memory(broker, worker->owner);
	checkpoint->channel = channel;
	if (!broker->registry->shutting_down && worker->owner) {
		checkpoint->lingers = worker_want(worker, epoch) && faulted;
		checkpoint_begin_to_take(checkpoint);
	} else {
		checkpoint_let_go(checkpoint);
		checkpoint->restored = true;
	}
	return true;
}

bool checkpoint_begin(struct broker *broker, struct worker *worker, uint32_t epoch,
		      const char *reason, int error, struct completion *completion)
{
	return instance_give_up(broker, worker, epoch, reason, error, false, completion);
}

void checkpoint_insist(struct broker *broker, struct worker *worker, uint32_t epoch,
		       const char *format, ...)
{
	char reason[sizeof(((struct checkpoint *)0)->reason)];
	_cleanup_text_ struct text sentence = TEXT_INIT;
	uid_t uid = worker->owner->uid;
	pid_t pid = worker_pid(worker);
	char file[32];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	if (!checkpoint_begin(broker, worker, epoch, reason, EIO, NULL))
		return;
	snprintf(file, sizeof(file), "owners/%u/worker", uid);
	text_printf(&sentence, "the worker of uid %u %s", uid, reason);
	journal_fail(broker->journal, uid, pid, file, ETIMEDOUT, text_string(&sentence));
}

void checkpoint_note_fault(struct broker *broker, struct worker *worker, uint32_t epoch,
			   uint32_t device, const struct wire_reply *reply)
{
	_cleanup_text_ struct text reason = TEXT_INIT;

	text_printf(&reason, "lost its contexts");
	text_add_call(&reason, reply->call, reply->result);
	pthread_mutex_lock(&broker->registry->lock);
	if (instance_give_up(broker, worker, epoch, text_string(&reason),
			     cuda_result_errno(reply->result), true, NULL) &&
	    worker->owner)
		worker->owner->meter->devices[device].faults++;
	pthread_mutex_unlock(&broker->registry->lock);
}
