/* SPDX-License-Identifier: MIT */
#include "process/worker_instance.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/warning.h"
#include "channel/channel.h"
#include "memory/kept.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "process/checkpoint.h"
#include "process/processes.h"
#include "process/user_lanes.h"
#include "record/records.h"

#define ANSWERING_THREADS 2
#define MOVER_THREADS	  3   /* two copy the bytes of long reads, one is for all else */
#define LOST_AT_ONCE	  256 /* allocations, before others have the lock */
#define IDLE_STOP_SECONDS 5
#define BARREN_MAX	  3

/* Notes why the process ends: only the first reason counts. */
static void instance_note_reason(struct instance *instance, const char *reason, int error)
{
	struct worker *worker = instance->worker;

	if (!instance->reason[0]) {
		snprintf(instance->reason, sizeof(instance->reason), "%s", reason);
		instance->error = error;
	}
	if (!instance->stopping) {
		snprintf(worker->end_reason, sizeof(worker->end_reason), "%s",
			 instance->reason);
		worker->end_error = instance->error;
		worker->end_epoch = instance->epoch;
	}
}

static void worker_name(const struct worker *worker, char *name, size_t size)
{
	if (worker->owner)
		snprintf(name, size, "owners/%u", worker->owner->uid);
	else
		snprintf(name, size, "mover");
}

/* Notes the start of a process. worker->lock is held. */
static void instance_tell_start(struct broker *broker, struct worker *worker)
{
	char name[32];

	worker_name(worker, name, sizeof(name));
	__atomic_add_fetch(&broker->processes->n_instances, 1, __ATOMIC_RELAXED);
	journal_event(broker->journal, "worker_start %s run=%u", name, worker->epoch);
}

/*
 * Marks allocations of the process as lost, except those being restored. Others have the
 * lock in between: what is not marked yet asks for the process that has ended, and fails.
 */
static void instance_lose_all(struct broker *broker, struct owner *owner, uint32_t epoch,
			      const char *why)
{
	struct allocation *allocation;
	struct worker_walk walk;
	struct loss loss = { 0 };

	worker_walk_begin(&walk, owner);
	for (unsigned int n = 1; (allocation = worker_walk_next(&walk)); n++) {
		if (allocation->worker_epoch == epoch)
			worker_lose_allocation(broker, allocation, why, &loss);
		if (n % LOST_AT_ONCE == 0)
			registry_let_others(broker->registry);
	}
	worker_walk_end(&walk);
	loss_tell(broker, owner, &loss, why);
}

/* Tells the administrator of an end that nobody asked for. */
static void instance_warn(struct broker *broker, struct worker *worker,
			  const char *reason)
{
	struct warnings *warnings = broker->journal->warnings;
	char object[32];
	uid_t uid;

	if (!worker->owner) {
		warnings_add(warnings, WARNING_MOVER_ENDED, geteuid(), "mover",
			     "the mover, which moves all users' data, %s; another is "
			     "started",
			     reason);
		return;
	}
	uid = worker->owner->uid;
	snprintf(object, sizeof(object), "owners/%u/worker", uid);
	if (worker_has_failed(worker))
		warnings_add(warnings, WARNING_WORKER_FAILED, uid, object,
			     "the worker of uid %u %s, as those before, and is not "
			     "started again until owners/%u/reset is written",
			     uid, reason, uid);
	else
		warnings_add(warnings, WARNING_WORKER_ENDED, uid, object,
			     "the worker of uid %u %s", uid, reason);
}

/* For the next broker. Under registry.lock. */
static void worker_save_barren(struct worker *worker)
{
	struct owner *owner = worker->owner;

	if (!owner)
		return;
	pthread_mutex_lock(&worker->lock);
	owner->n_barren = worker->n_barren;
	memcpy(owner->end_reason, worker->end_reason, sizeof(owner->end_reason));
	pthread_mutex_unlock(&worker->lock);
	owner_save(worker->broker->registry, owner);
}

/*
 * Notes the end of a process (unasked: it died) and marks its allocations as lost. No
 * lock is held.
 */
static void instance_tell_end(struct broker *broker, struct worker *worker,
			      uint32_t epoch, bool unasked, bool wanted,
			      const char *reason)
{
	char name[32];

	worker_name(worker, name, sizeof(name));
	pthread_mutex_lock(&broker->registry->lock);
	journal_event(broker->journal, "worker_end %s run=%u reason=\"%s\"", name, epoch,
		      reason);
	if (unasked && !wanted)
		instance_warn(broker, worker, reason);
	if (unasked) {
		broker->processes->restarts++;
		if (worker->owner) {
			worker->owner->restarts++;
			worker->owner->meter->restarts++;
			worker_save_barren(worker);
		} else {
			broker->processes->mover_restarts++;
		}
		registry_save_restarts(broker->registry, broker->processes->restarts,
				       broker->processes->mover_restarts);
	}
	if (worker->owner && !checkpoint_is_taking(worker, epoch))
		instance_lose_all(broker, worker->owner, epoch, reason);
	else if (!worker->owner && unasked)
		broker->processes->mover_wanted = true;
	pthread_mutex_unlock(&broker->registry->lock);
	checkpoint_run_ended(broker, worker, epoch);
}

/* For the next broker, which waits for the end of the process (orphans.h). */
static int instance_started(void *userdata, pid_t pid, int pidfd,
			    struct process_record **ret_record)
{
	struct instance *instance = userdata;
	const struct worker *worker = instance->worker;
	struct records *records = worker->broker->registry->records;
	struct process_record record = {
		.pid = (uint32_t)pid,
		.owner = worker->owner ? worker->owner->uid : geteuid(),
		.mover = !worker->owner,
	};
	int r = kept_add(worker->broker->memory, RECORD_PROCESS, pidfd,
			 &instance->record);

	if (!instance->record)
		return r;
	records_save(records, RECORD_PROCESS, instance->record, &record);
	*ret_record = records_place(records, RECORD_PROCESS, instance->record);
	return 0;
}

static void instance_ended(void *userdata, struct channel *channel, const char *reason)
{
	struct instance *instance = userdata;
	struct worker *worker = instance->worker;
	struct broker *broker = worker->broker;
	bool stopping;

	pthread_mutex_lock(&worker->lock);
	stopping = instance->stopping;
	worker->n_barren +=
		!stopping && !instance->proved && !channel_lacks_means(channel);
	if (worker->channel == channel)
		worker->channel = NULL;
	instance_note_reason(instance, reason, EIO);
	pthread_mutex_unlock(&worker->lock);

	instance_tell_end(broker, worker, instance->epoch, !stopping, instance->wanted,
			  instance->reason);

	pthread_mutex_lock(&broker->registry->lock);
	LL_PREPEND2(broker->processes->dead_instances, instance, next_dead);
	broker_wake_housekeeper(broker);
	pthread_mutex_unlock(&broker->registry->lock);
}

/* Anybody may have put locks (fcntl(2)) on the process. */
static void instance_bury(struct task *task)
{
	struct instance *instance = container_of(task, struct instance, burial);
	struct broker *broker = instance->worker->broker;
	struct keep_key kept =
		kept_unrecord(broker->memory, RECORD_PROCESS, instance->record);

	kept_end(broker->memory, kept);
	channel_free(instance->channel);
	pthread_mutex_lock(&instance->worker->lock);
	LL_DELETE(instance->worker->instances, instance);
	pthread_mutex_unlock(&instance->worker->lock);
	pthread_mutex_lock(&broker->registry->lock);
	if (__atomic_sub_fetch(&broker->processes->n_instances, 1, __ATOMIC_RELAXED) == 0)
		pthread_cond_broadcast(&broker->registry->idle);
	registry_less_busy(broker->registry);
	pthread_mutex_unlock(&broker->registry->lock);
	free(instance);
}

void instances_bury(struct broker *broker)
{
	struct registry *registry = broker->registry;
	struct instance *instance;

	pthread_mutex_lock(&registry->lock);
	while ((instance = broker->processes->dead_instances)) {
		const struct owner *owner = instance->worker->owner;

		LL_DELETE2(broker->processes->dead_instances, instance, next_dead);
		registry->n_busy++;
		instance->burial.run = instance_bury;
		user_lane_add(broker, LANE_CLOSES, owner ? owner->uid : geteuid(),
			      &instance->burial);
	}
	pthread_mutex_unlock(&registry->lock);
}

/* Processes that have ended and wait for their close, which anybody may make last. */
#define UNBURIED_MAX 8

int worker_start(struct worker *worker)
{
	struct broker *broker = worker->broker;
	char name[32] = "mover";
	struct channel_config config = {
		.spawner = &broker->processes->spawner,
		.program = broker->processes->worker_program,
		.driver = broker->processes->driver_path,
		.name = name,
		.mover = !worker->owner,
		.uid = worker->owner ? worker->owner->uid : geteuid(),
		.gid = worker->owner ? worker->owner->gid : getegid(),
		.idle_s = broker->processes->worker_idle_s,
		.output_fd = -1,
		.n_threads = worker->owner ? ANSWERING_THREADS : MOVER_THREADS,
		.started = instance_started,
		.ended = instance_ended,
	};
	_cleanup_close_ int output = -1;
	struct instance *instance;
	int r, n_unburied;

	if (worker->closed)
		return -ESHUTDOWN;
	if (worker->owner && worker->n_barren >= BARREN_MAX)
		return -EHOSTDOWN;
	LL_COUNT(worker->instances, instance, n_unburied);
	if (worker->owner && n_unburied >= UNBURIED_MAX)
		return -EBUSY;
	r = worker_prepare_locked(worker);
	if (r < 0)
		return r;
	config.staging_fd = worker->staging.fd;
	config.staging_size = worker->staging.size;
	if (worker->owner) {
		snprintf(name, sizeof(name), "%u", worker->owner->uid);
		output = output_open(worker->owner->output);
		if (output < 0)
			return output;
		config.output_fd = output;
	}
	instance = calloc(1, sizeof(*instance));
	if (!instance)
		return -ENOMEM;
	instance->worker = worker;
	instance->epoch = worker->epoch + 1;
	instance->refusal = (struct wire_reply){ .error = EACCES, .call = -1 };
	config.userdata = instance;
	/* instance_ended() needs worker->lock, so instance->channel is set before the
	 * call. */
	r = channel_new(&instance->channel, &config);
	if (r < 0) {
		free(instance);
		return r;
	}
	(void)take_fd(&output);
	worker->channel = instance->channel;
	worker->instance = instance;
	LL_PREPEND(worker->instances, instance);
	worker->epoch++;
	instance_tell_start(broker, worker);
	return 0;
}

bool worker_has_failed(struct worker *worker)
{
	bool failed;

	pthread_mutex_lock(&worker->lock);
	failed = worker->owner && worker->n_barren >= BARREN_MAX;
	pthread_mutex_unlock(&worker->lock);
	return failed;
}

void worker_forgive(struct worker *worker)
{
	pthread_mutex_lock(&worker->lock);
	worker->n_barren = 0;
	if (worker->channel)
		worker->instance->proved = true;
	pthread_mutex_unlock(&worker->lock);
	worker_save_barren(worker);
}

void worker_note_reply(struct worker *worker)
{
	pthread_mutex_t *lock = &worker->broker->registry->lock;
	bool is_news;

	pthread_mutex_lock(&worker->lock);
	if (worker->channel)
		worker->instance->proved = true;
	is_news = worker->n_barren;
	pthread_mutex_unlock(&worker->lock);
	if (!is_news)
		return;
	pthread_mutex_lock(lock);
	worker_forgive(worker);
	pthread_mutex_unlock(lock);
}

bool worker_is_up(const struct worker *worker)
{
	return worker->channel && channel_state(worker->channel) != CHANNEL_ENDED;
}

bool worker_runs(struct worker *worker, uint32_t epoch)
{
	bool runs;

	pthread_mutex_lock(&worker->lock);
	runs = worker->epoch == epoch && worker_is_up(worker);
	pthread_mutex_unlock(&worker->lock);
	return runs;
}

pid_t worker_pid(struct worker *worker)
{
	pid_t pid = 0;

	pthread_mutex_lock(&worker->lock);
	if (worker_is_up(worker))
		pid = channel_pid(worker->channel);
	pthread_mutex_unlock(&worker->lock);
	return pid;
}

void worker_tell_left(struct worker *worker, struct text *text)
{
	const struct instance *instance;

	pthread_mutex_lock(&worker->lock);
	LL_FOREACH (worker->instances, instance) {
		pid_t pid = channel_pid(instance->channel);

		if (pid)
			text_printf(text, "%s%d", text->length ? ", " : "", pid);
	}
	pthread_mutex_unlock(&worker->lock);
}

void worker_end_reason(struct worker *worker, char *ret_reason, size_t size)
{
	char reason[sizeof(worker->end_reason)] = "";

	pthread_mutex_lock(&worker->lock);
	/* Requests are answered before instance_ended() has noted the reason. */
	if (worker->channel && !worker->instance->reason[0])
		channel_reason(worker->channel, reason, sizeof(reason));
	snprintf(ret_reason, size, "%s",
		 reason[0]		 ? reason
		 : worker->end_reason[0] ? worker->end_reason
					 : "ended");
	pthread_mutex_unlock(&worker->lock);
}

int worker_end_error(struct worker *worker, uint32_t epoch)
{
	int error = EIO;

	pthread_mutex_lock(&worker->lock);
	/* Nothing is noted yet for a process that has just ended. */
	if (worker->end_epoch == epoch && worker->end_error)
		error = worker->end_error;
	pthread_mutex_unlock(&worker->lock);
	return error;
}

bool worker_gave_up(struct worker *worker, uint32_t epoch)
{
	bool given_up;

	pthread_mutex_lock(&worker->lock);
	given_up = worker->given_up_epoch == epoch;
	pthread_mutex_unlock(&worker->lock);
	return given_up;
}

/* Detaches the process: the next request starts another. Under worker->lock. */
static struct channel *worker_take_link(struct worker *worker)
{
	if (worker->channel)
		worker->instance->stopping = true;
	return take_ptr(worker->channel);
}

void worker_close(struct worker *worker, unsigned int seconds)
{
	struct channel *channel;

	pthread_mutex_lock(&worker->lock);
	worker->closed = true;
	channel = worker_take_link(worker);
	pthread_mutex_unlock(&worker->lock);
	if (channel)
		channel_stop(channel, seconds);
}

void worker_condemn(struct worker *worker, uint32_t epoch, const char *reason)
{
	pthread_mutex_lock(&worker->lock);
	if (worker->epoch == epoch && worker->channel) {
		instance_note_reason(worker->instance, reason, EIO);
		channel_kill(worker->channel);
	}
	pthread_mutex_unlock(&worker->lock);
}

struct channel *worker_abandon(struct worker *worker, uint32_t epoch, const char *reason,
			       int error, bool wanted)
{
	struct channel *channel = NULL;

	pthread_mutex_lock(&worker->lock);
	if (worker->channel && worker->epoch == epoch) {
		instance_note_reason(worker->instance, reason, error);
		/* The broker ended the process; this is no failure of its own. */
		worker->instance->proved = true;
		worker->instance->wanted = wanted;
		worker->given_up_epoch = epoch;
		channel = take_ptr(worker->channel);
	}
	pthread_mutex_unlock(&worker->lock);
	return channel;
}

uint32_t worker_newest_epoch(struct worker *worker)
{
	uint32_t epoch;

	pthread_mutex_lock(&worker->lock);
	epoch = worker->epoch;
	pthread_mutex_unlock(&worker->lock);
	return epoch;
}

uint32_t worker_epoch(struct worker *worker)
{
	uint32_t epoch;

	pthread_mutex_lock(&worker->lock);
	epoch = worker->channel ? worker->epoch : 0;
	pthread_mutex_unlock(&worker->lock);
	return epoch;
}

void worker_end_idle(struct worker *worker, int64_t idle_s)
{
	struct channel *channel = NULL;

	pthread_mutex_lock(&worker->lock);
	if (worker->channel && channel_pending(worker->channel) == 0 &&
	    !worker->instance->held &&
	    clock_ms() - worker->last_asked_ms >= idle_s * 1000)
		channel = worker_take_link(worker);
	pthread_mutex_unlock(&worker->lock);
	if (channel)
		channel_stop(channel, IDLE_STOP_SECONDS);
}
