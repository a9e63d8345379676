/* SPDX-License-Identifier: MIT */
#include "process/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/completion.h"
#include "process/processes.h"
#include "process/restore.h"

/* Time limit for saving: a constant, plus an amount for each GiB. */
#define SAVE_MS		5000
#define SAVE_MS_PER_GIB 2000
#define SAVE_ALIGN	4096 /* alignment in the file */
/*
 * A faulted process does no more work, but its exit keeps the driver busy: contexts made
 * meanwhile take 50 % longer. So the process is killed when the next one has its
 * contexts, or after this time.
 */
#define LINGER_MS 500

struct rescue {
	struct broker *broker;
	struct worker *worker;
	uint32_t epoch; /* of the process that ends */
	char reason[128];
	struct link *link; /* of that process; NULL: gone */
	int64_t deadline_ms;
	bool lingers; /* waits for the next process; registry.lock, like: */
	bool let_go;  /* saving is over */
	bool killed;  /* was killed */
	bool run_ended;
	bool restored;
	struct completion *completion;
	struct rescue *prev, *next; /* of broker->processes->rescues; registry.lock */

	struct restore restore; /* the saved memory */
	unsigned int n_written; /* including failures */
	struct ask ask;
};

static void save_next(struct rescue *rescue, struct link *link);

/* ---- the end ---- */

/*
 * Ends the rescue if the process has ended and all is restored. Called with registry.lock
 * held since the caller changed the state; releases the lock. The rescue may be freed
 * afterwards.
 */
static void rescue_finish(struct rescue *rescue)
{
	struct broker *broker = rescue->broker;
	struct completion *completion = NULL;
	bool over;

	over = rescue->run_ended && rescue->restored;
	if (over) {
		DL_DELETE(broker->processes->rescues, rescue);
		completion = completion_take(&rescue->completion);
		registry_less_busy(&broker->registry);
	}
	pthread_mutex_unlock(&broker->registry.lock);
	if (!over)
		return;
	closep(&rescue->restore.fd);
	free(rescue->restore.saved);
	free(rescue);
	if (completion)
		completion->done(completion, 0, NULL, 0);
}

/*
 * A process keeps freed memory mapped until its exit, and gets no request to unmap.
 * Callers that find a device full wait for the exit. Under registry.lock.
 */
static void rescue_hold_memory(struct broker *broker)
{
	for (unsigned int i = 0; i < broker->registry.n_devices; i++)
		reclaim_begin(&broker->reclaim, i);
}

static void rescue_release_memory(struct broker *broker)
{
	for (unsigned int i = 0; i < broker->registry.n_devices; i++) {
		reclaim_end(&broker->reclaim, i);
	}
}

void rescue_run_ended(struct broker *broker, struct worker *worker, uint32_t epoch)
{
	struct rescue *rescue;

	pthread_mutex_lock(&broker->registry.lock);
	DL_FOREACH (broker->processes->rescues, rescue) {
		if (rescue->worker == worker && rescue->epoch == epoch)
			break;
	}
	if (!rescue) {
		pthread_mutex_unlock(&broker->registry.lock);
		return;
	}
	rescue->link = NULL;
	rescue->run_ended = true;
	rescue_release_memory(broker);
	rescue_finish(rescue);
	for (uint32_t i = 0; i < broker->registry.n_devices; i++)
		reclaim_retry(&broker->reclaim, &broker->registry.lock, i);
}

/* Under registry.lock. */
static void rescue_kill(struct rescue *rescue)
{
	if (rescue->link && !rescue->killed)
		link_kill(rescue->link);
	rescue->killed = true;
}

/* Saving is over: kills the process, now or after LINGER_MS. Under registry.lock. */
static void rescue_let_go(struct rescue *rescue)
{
	rescue->let_go = true;
	if (!rescue->lingers) {
		rescue_kill(rescue);
		return;
	}
	rescue->deadline_ms = clock_ms() + LINGER_MS;
	broker_wake_housekeeper(rescue->broker);
}

void rescue_run_ready(struct broker *broker, struct worker *worker)
{
	struct rescue *rescue;

	pthread_mutex_lock(&broker->registry.lock);
	DL_FOREACH (broker->processes->rescues, rescue) {
		if (rescue->worker != worker || !rescue->lingers)
			continue;
		rescue->lingers = false;
		/* Otherwise the process is still saving. */
		if (rescue->let_go)
			rescue_kill(rescue);
	}
	pthread_mutex_unlock(&broker->registry.lock);
}

int64_t rescue_check_limits(struct broker *broker)
{
	int64_t now = clock_ms(), next = -1;
	struct rescue *rescue;

	pthread_mutex_lock(&broker->registry.lock);
	DL_FOREACH (broker->processes->rescues, rescue) {
		if (!rescue->link || rescue->killed)
			continue;
		if (rescue->deadline_ms <= now ||
		    (rescue->let_go && broker->registry.shutting_down))
			rescue_kill(rescue);
		else if (next < 0 || rescue->deadline_ms - now < next)
			next = rescue->deadline_ms - now;
	}
	pthread_mutex_unlock(&broker->registry.lock);
	return next;
}

/* ---- parked works ---- */

bool rescue_park(struct work *work)
{
	for (unsigned int i = 0; i < work->n_uses; i++) {
		struct allocation *allocation = work->uses[i].allocation;

		if (!allocation->restoring)
			continue;
		LL_PREPEND2(allocation->parked, work, next_ready);
		return true;
	}
	return false;
}

/* ---- saving ---- */

static void save_end(struct rescue *rescue)
{
	struct broker *broker = rescue->broker;

	pthread_mutex_lock(&broker->registry.lock);
	rescue_let_go(rescue);
	pthread_mutex_unlock(&broker->registry.lock);
	restore_begin(&rescue->restore);
}

static void save_replied(struct ask *ask, const struct wire_reply *reply, bool lost)
{
	struct rescue *rescue = container_of(ask, struct rescue, ask);
	struct link *link;

	pthread_mutex_lock(&rescue->broker->registry.lock);
	link = rescue->link;
	pthread_mutex_unlock(&rescue->broker->registry.lock);
	rescue->restore.saved[rescue->n_written++].good = !lost && !reply->error;
	if (lost || rescue->n_written == rescue->restore.n_saved)
		save_end(rescue);
	else
		save_next(rescue, link);
}

/*
 * The link must not be freed meanwhile: called under registry.lock, or by the thread that
 * received a reply on this link. A link killed meanwhile replies as lost.
 */
static void save_next(struct rescue *rescue, struct link *link)
{
	const struct saved *saved = &rescue->restore.saved[rescue->n_written];

	rescue->ask = (struct ask){
		.request = {
			.op = WIRE_SAVE,
			.address = saved->address,
			.length = saved->allocation->size,
			.source = saved->offset,
		},
		.fd = fcntl(rescue->restore.fd, F_DUPFD_CLOEXEC, 3),
		.done = save_replied,
	};
	link_ask(link, &rescue->ask);
}

/* ---- the beginning ---- */

static bool is_saved(const struct allocation *allocation)
{
	return allocation->managed && allocation->state == ALLOCATION_LIVE;
}

static bool lives_in(const struct allocation *allocation, const struct worker *worker,
		     uint32_t epoch)
{
	return allocation->owner == worker->owner && !kind_is_durable(allocation->kind) &&
	       allocation->worker_epoch == epoch && !allocation->restoring &&
	       allocation->state != ALLOCATION_MAKING;
}

/* Makes a file of that size. */
static int save_file(uint64_t size)
{
	_cleanup_close_ int fd = -1;

	if (!host_has_room(size))
		return -ENOMEM;
	fd = memfd_create("gpumem-saved", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	return take_fd(&fd);
}

/* Notes the allocations to save and marks the others as lost. Returns: bytes to save. */
static uint64_t rescue_take(struct rescue *rescue)
{
	struct registry *registry = &rescue->broker->registry;
	struct allocation *allocation;
	uint64_t size = 0;

	for (uint32_t slot = 0; (allocation = slots_next(&registry->allocations, &slot));
	     slot++) {
		if (!lives_in(allocation, rescue->worker, rescue->epoch))
			continue;
		if (!is_saved(allocation)) {
			worker_lose_allocation(rescue->broker, allocation,
					       rescue->reason);
			continue;
		}
		allocation->restoring = true;
		rescue->restore.saved[rescue->restore.n_saved++] = (struct saved){
			.allocation = allocation,
			.address = allocation->address,
			.offset = size,
		};
		size += align_up(allocation->size, SAVE_ALIGN);
	}
	return size;
}

/* There is no memory for the file: marks all allocations as lost. */
static void rescue_drop(struct rescue *rescue)
{
	char why[sizeof(rescue->reason) + 64];

	snprintf(why, sizeof(why), "%s, and the host has no memory left to keep it",
		 rescue->reason);
	for (; rescue->restore.n_saved; rescue->restore.n_saved--) {
		struct allocation *allocation =
			rescue->restore.saved[rescue->restore.n_saved - 1].allocation;

		allocation->restoring = false;
		worker_lose_allocation(rescue->broker, allocation, why);
	}
}

static void rescue_restored(struct restore *restore)
{
	struct rescue *rescue = container_of(restore, struct rescue, restore);

	pthread_mutex_lock(&rescue->broker->registry.lock);
	rescue->restored = true;
	rescue_finish(rescue);
}

static struct rescue *rescue_new(struct broker *broker, struct worker *worker,
				 uint32_t epoch, const char *reason,
				 struct completion *completion)
{
	struct rescue *rescue = calloc(1, sizeof(*rescue));

	if (!rescue)
		return NULL;
	rescue->broker = broker;
	rescue->worker = worker;
	rescue->epoch = epoch;
	rescue->restore = (struct restore){
		.broker = broker,
		.worker = worker,
		.reason = rescue->reason,
		.done = rescue_restored,
		.fd = -1,
	};
	snprintf(rescue->reason, sizeof(rescue->reason), "%s", reason);
	rescue->restore.saved = calloc(worker->owner ? worker->owner->n_in_worker + 1 : 1,
				       sizeof(*rescue->restore.saved));
	if (!rescue->restore.saved) {
		free(rescue);
		return NULL;
	}
	/* After a signal the worker is still ended, and the line succeeds. */
	if (completion)
		completion_hold(completion, &rescue->completion, completion_let_go);
	return rescue;
}

/* faulted: the contexts are lost, so the process does nothing any more. */
static bool run_give_up(struct broker *broker, struct worker *worker, uint32_t epoch,
			const char *reason, int error, bool faulted,
			struct completion *completion)
{
	struct link *link = worker_abandon(worker, epoch, reason, error);
	struct rescue *rescue;
	uint64_t size = 0;

	if (!link)
		return false;
	rescue = rescue_new(broker, worker, epoch, reason, completion);
	/* Without memory for the rescue, all is lost at the end of the process. */
	if (!rescue) {
		link_kill(link);
		return false;
	}
	broker->registry.n_busy++;
	DL_APPEND(broker->processes->rescues, rescue);
	rescue_hold_memory(broker);
	rescue->link = link;
	if (!broker->registry.shutting_down && worker->owner) {
		size = rescue_take(rescue);
		rescue->lingers = worker_want(worker, epoch) && faulted;
	}
	if (size)
		rescue->restore.fd = save_file(size);
	if (size && rescue->restore.fd < 0)
		rescue_drop(rescue);
	if (rescue->restore.n_saved) {
		rescue->deadline_ms = clock_ms() + SAVE_MS +
				      (int64_t)(size >> 20) * SAVE_MS_PER_GIB / 1024;
		broker_wake_housekeeper(broker);
		save_next(rescue, link);
	} else {
		rescue_let_go(rescue);
		rescue->restored = true;
	}
	return true;
}

bool rescue_begin(struct broker *broker, struct worker *worker, uint32_t epoch,
		  const char *reason, int error, struct completion *completion)
{
	return run_give_up(broker, worker, epoch, reason, error, false, completion);
}

void rescue_insist(struct broker *broker, struct worker *worker, uint32_t epoch,
		   const char *format, ...)
{
	char reason[sizeof(((struct rescue *)0)->reason)];
	_cleanup_text_ struct text sentence = TEXT_INIT;
	uid_t uid = worker->owner->uid;
	pid_t pid = worker_pid(worker);
	char file[32];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	if (!rescue_begin(broker, worker, epoch, reason, EIO, NULL))
		return;
	snprintf(file, sizeof(file), "owners/%u/worker", uid);
	text_printf(&sentence, "the worker of uid %u %s", uid, reason);
	journal_fail(&broker->journal, uid, pid, file, ETIMEDOUT, text_string(&sentence));
}

void rescue_note_fault(struct broker *broker, struct worker *worker, uint32_t epoch,
		       const struct wire_reply *reply)
{
	_cleanup_text_ struct text reason = TEXT_INIT;

	text_printf(&reason, "lost its contexts");
	text_add_call(&reason, reply->call, reply->result);
	pthread_mutex_lock(&broker->registry.lock);
	run_give_up(broker, worker, epoch, text_string(&reason),
		    cuda_result_errno(reply->result), true, NULL);
	pthread_mutex_unlock(&broker->registry.lock);
}
