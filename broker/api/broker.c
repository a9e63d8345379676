/* SPDX-License-Identifier: MIT */
/* Start and end of the broker, and its parts. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/broker.h"
#include "api/housekeeper.h"
#include "api/limits_file.h"
#include "api/line_times.h"
#include "api/memory_used.h"
#include "api/resume.h"
#include "api/text_maker.h"
#include "api/watch.h"
#include "base/clock.h"
#include "base/numa.h"
#include "base/number.h"
#include "base/subordinates.h"
#include "base/user_names.h"
#include "base/workqueue.h"
#include "cuda/driver.h"
#include "kernels/module_use.h"
#include "memops/lease.h"
#include "memops/lifetime.h"
#include "memops/no_memory.h"
#include "memops/release.h"
#include "memops/still_mapped.h"
#include "memory/block.h"
#include "memory/reclaim.h"
#include "memory/slab.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/stream.h"
#include "op/op.h"
#include "process/device_probe.h"
#include "process/file_process.h"
#include "process/processes.h"
#include "process/user_lanes.h"
#include "record/records.h"

/* The broker and its parts, allocated together. */
struct whole {
	struct broker broker;
	struct registry registry;
	struct journal journal;
	struct memory memory;
	struct reclaim reclaim;
	struct workqueue workqueue, user_lanes[N_USER_LANES];
	struct processes processes;
	struct ops ops;
	struct leases leases;
	struct line_times line_times;
	struct text_maker text_maker;
	struct questions questions;
	struct lifetimes lifetimes;
};

/*
 * Time limit for ops under way, for a worker to end by itself, and for the kernel to end
 * a killed worker.
 */
#define STOP_SECONDS 5

/* ---- the start ---- */

static void life_deinit(struct broker *broker)
{
	struct owner *owner, *safe;

	housekeeper_end(broker);
	user_lanes_deinit(broker->user_lanes);
	workqueue_deinit(broker->workqueue);
	text_maker_deinit(broker->text_maker);
	outputs_deinit(&broker->processes->outputs);
	leases_deinit(broker->leases);
	worker_deinit(&broker->processes->mover);
	HASH_ITER (hh, broker->registry->owners_by_uid, owner, safe) {
		owner->pool = slab_pool_free(owner->pool);
		if (owner->worker)
			worker_deinit(owner->worker);
		free(take_ptr(owner->worker));
		owner->output = output_free(owner->output);
	}
	spawner_deinit(&broker->processes->spawner);
	broker->registry->user_names = user_names_free(broker->registry->user_names);
	broker->registry->subordinates =
		subordinates_free(broker->registry->subordinates);
	limits_file_free(broker);
	registry_deinit(broker->registry);
	broker->registry->records = records_free(broker->registry->records);
	if (broker->memory->n_blocks == 0)
		memory_deinit(broker->memory);
	journal_deinit(broker->journal);
	pthread_cond_destroy(&broker->processes->housekeeper_wake);
	cuda_driver_free(broker->driver);
	free(broker->processes->driver_path);
	free(broker->processes->worker_program);
	free(broker->version);
	free(broker->socket);
	free(container_of(broker, struct whole, broker));
}

static int life_init(struct broker *broker, const struct broker_config *config,
		     struct text *why)
{
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	int r;

	broker->processes->driver_path = strdup(config->driver);
	broker->processes->worker_program = strdup(config->worker);
	broker->version = strdup(config->version);
	broker->processes->worker_idle_s = config->worker_idle_s;
	broker->ops->launch_timeout_ms = config->launch_timeout_ms;
	broker->ops->give_back_ms = config->give_back_timeout_ms
					    ? config->give_back_timeout_ms
					    : GIVE_BACK_TIMEOUT_MS;
	if (!broker->processes->driver_path || !broker->processes->worker_program ||
	    !broker->version)
		return -ENOMEM;
	numa_look();
	r = cuda_driver_open(config->driver, &broker->driver, why);
	if (r < 0)
		return r;
	r = devices_probe(broker, &failure);
	if (r == 0)
		r = memory_init(broker->memory, broker->driver,
				broker->registry->n_devices, &failure);
	if (r == 0)
		worker_init(&broker->processes->mover, broker, NULL);
	if (r == 0)
		r = worker_prepare(&broker->processes->mover);
	if (r < 0 && !why->length) {
		text_printf(why, "the broker can't start: %s", strerror(-r));
		text_add_call(why, failure.call, failure.result);
	}
	return r;
}

int broker_new(struct broker **ret_broker, const struct broker_config *config,
	       struct text *why)
{
	struct whole *whole = calloc(1, sizeof(*whole));
	struct broker *broker;
	int r;

	if (!whole)
		return -ENOMEM;
	broker = &whole->broker;
	broker->registry = &whole->registry;
	broker->journal = &whole->journal;
	broker->memory = &whole->memory;
	broker->reclaim = &whole->reclaim;
	broker->workqueue = &whole->workqueue;
	broker->user_lanes = whole->user_lanes;
	broker->processes = &whole->processes;
	broker->ops = &whole->ops;
	broker->leases = &whole->leases;
	broker->line_times = &whole->line_times;
	broker->text_maker = &whole->text_maker;
	broker->questions = &whole->questions;
	broker->lifetimes = &whole->lifetimes;
	registry_init(broker->registry);
	journal_init(broker->journal);
	broker->journal->warnings = config->warnings;
	broker->processes->resume = op_resume;
	clock_cond_init(&broker->processes->housekeeper_wake);
	broker->processes->mover.staging.fd = -1;
	outside_init(&broker->processes->outside, &broker->processes->spawner);
	broker->processes->outputs.epoll = broker->processes->outputs.stop = -1;
	leases_init(broker->leases, broker);
	line_times_init(broker->line_times);
	/* First, with few descriptors there. */
	r = spawner_init(&broker->processes->spawner);
	if (r == 0) {
		broker->registry->user_names = user_names_new();
		r = broker->registry->user_names ? 0 : -EAGAIN;
	}
	if (r == 0)
		r = workqueue_init(broker->workqueue, WORKQUEUE_THREADS, WORKQUEUE_SHARE);
	if (r == 0)
		r = user_lanes_init(broker->user_lanes);
	if (r == 0 && config->subuid) {
		broker->registry->subordinates = subordinates_new(config->subuid);
		r = broker->registry->subordinates ? 0 : -ENOMEM;
	}
	if (r == 0)
		r = text_maker_init(broker->text_maker, broker);
	if (r == 0)
		r = outputs_init(&broker->processes->outputs);
	if (r == 0)
		r = life_init(broker, config, why);
	if (r < 0) {
		if (!why->length)
			text_printf(why, "the broker can't start: %s", strerror(-r));
		life_deinit(broker);
		return r;
	}
	*ret_broker = broker;
	return 0;
}

int broker_begin(struct broker *broker, struct keep *keep, const char *socket,
		 struct text *why)
{
	int r = 0;

	broker->socket = socket ? strdup(socket) : NULL;
	if (socket && !broker->socket)
		r = -ENOMEM;
	if (r == 0)
		r = broker_resume(broker, keep, why);
	if (r == 0)
		r = housekeeper_begin(broker);
	if (r < 0 && !why->length)
		text_printf(why, "the broker can't start: %s", strerror(-r));
	return r;
}

void broker_summary(struct broker *broker, struct text *text)
{
	const struct registry *registry = broker->registry;

	pthread_mutex_lock(&broker->registry->lock);
	text_printf(text, "%u device%s, %llu allocation%s of %s, %u user%s",
		    registry->n_devices, registry->n_devices == 1 ? "" : "s",
		    (unsigned long long)registry->n_allocations,
		    registry->n_allocations == 1 ? "" : "s", size_text(registry->bytes),
		    HASH_COUNT(registry->owners_by_uid),
		    HASH_COUNT(registry->owners_by_uid) == 1 ? "" : "s");
	pthread_mutex_unlock(&broker->registry->lock);
}

int broker_limits(struct broker *broker, const char *path, struct text *why)
{
	return limits_file_open(broker, path, why);
}

/* ---- the end ---- */

void broker_shutdown(struct broker *broker)
{
	pthread_mutex_lock(&broker->registry->lock);
	broker->registry->shutting_down = true;
	pthread_mutex_unlock(&broker->registry->lock);
	alloc_queues_end(broker);
	leases_end(broker);
}

/* Waits for ops under way, with a time limit. Returns: whether all are done. */
static bool life_wait_idle(struct broker *broker)
{
	int64_t until_ms = clock_ms() + STOP_SECONDS * 1000;
	bool idle;
	int r = 0;

	pthread_mutex_lock(&broker->registry->lock);
	while (broker->registry->n_busy && r == 0)
		r = clock_cond_wait(&broker->registry->idle, &broker->registry->lock,
				    until_ms);
	idle = broker->registry->n_busy == 0;
	pthread_mutex_unlock(&broker->registry->lock);
	return idle;
}

static void life_stop_workers(struct broker *broker, unsigned int seconds)
{
	struct owner *owner, *safe;

	worker_close(&broker->processes->mover, seconds);
	HASH_ITER (hh, broker->registry->owners_by_uid, owner, safe) {
		if (owner->worker)
			worker_close(owner->worker, seconds);
	}
}

/*
 * Waits until the housekeeper has freed all runs. A process is killed if it does not end
 * in time. A process the kernel can't end, for instance because its device is gone, is
 * left behind. Returns: whether all are freed.
 */
static bool life_wait_runs(struct broker *broker, unsigned int seconds)
{
	int64_t until_ms = clock_ms() + (seconds + STOP_SECONDS) * 1000;
	bool gone;
	int r = 0;

	pthread_mutex_lock(&broker->registry->lock);
	while (__atomic_load_n(&broker->processes->n_instances, __ATOMIC_RELAXED) &&
	       r == 0)
		r = clock_cond_wait(&broker->registry->idle, &broker->registry->lock,
				    until_ms);
	gone = !__atomic_load_n(&broker->processes->n_instances, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&broker->registry->lock);
	return gone;
}

/* Lists the processes left. */
static void life_tell_left(struct broker *broker, struct text *why)
{
	_cleanup_text_ struct text pids = TEXT_INIT;
	struct owner *owner, *safe;

	worker_tell_left(&broker->processes->mover, &pids);
	HASH_ITER (hh, broker->registry->owners_by_uid, owner, safe) {
		if (owner->worker)
			worker_tell_left(owner->worker, &pids);
	}
	text_printf(why, "worker processes that were killed have not ended: %s",
		    text_string(&pids));
}

/*
 * Frees all allocations. All workers have ended: no memory is mapped and no op is under
 * way.
 */
static void life_free_allocations(struct broker *broker)
{
	struct allocation *allocation;

	for (uint32_t slot = 0;
	     (allocation = handle_table_next(&broker->registry->allocations, &slot));
	     slot++) {
		/* Skipped: the work queue is still making the memory. */
		if (allocation->state == ALLOCATION_MAKING)
			continue;
		pthread_mutex_lock(&broker->registry->lock);
		allocation_release(broker, allocation);
	}
}

static void life_free_streams(struct broker *broker)
{
	struct stream *stream, *safe;

	HASH_ITER (hh, broker->registry->streams_by_name, stream, safe)
		stream_free(broker->registry, stream);
}

void broker_drain(struct broker *broker)
{
	unsigned int seconds;

	if (broker->drained)
		return;
	broker->drained = true;
	/* Ops that missed the time limit do not get a second one. */
	seconds = life_wait_idle(broker) ? STOP_SECONDS : 0;
	life_stop_workers(broker, seconds);
	broker->left = !life_wait_runs(broker, seconds);
	/* Open requests were answered at the end of their worker. */
	if (!broker->left)
		life_wait_idle(broker);
	broker->left_files = !file_processes_kill(broker);
}

int broker_free(struct broker *broker, struct text *why)
{
	unsigned int n_unreleased;
	uint64_t n_ops;

	broker_shutdown(broker);
	broker_drain(broker);
	/* The process ends now, and the kernel frees the rest when possible. */
	if (broker->left) {
		life_tell_left(broker, why);
		return -EIO;
	}
	life_free_allocations(broker);
	life_wait_idle(broker);
	pthread_mutex_lock(&broker->registry->lock);
	n_ops = broker->registry->n_busy;
	/* What ends with the broker stays in the records. */
	watch_records(NULL);
	pthread_mutex_unlock(&broker->registry->lock);
	if (n_ops == 0) {
		still_mapped_free(broker);
		modules_free(broker);
		life_free_streams(broker);
	}
	n_unreleased = __atomic_load_n(&broker->reclaim->n_kept, __ATOMIC_RELAXED);
	if (n_ops || n_unreleased) {
		text_printf(
			why,
			"%llu commands did not end, %u pieces of memory were not given "
			"back",
			(unsigned long long)n_ops, n_unreleased);
		/* The process ends now, and the kernel frees the rest. */
		return -EIO;
	}
	/* They hold nothing of the broker; but their channels do, to the end. */
	if (!broker->left_files)
		life_deinit(broker);
	return 0;
}

/* ---- the next broker ---- */

struct token_ends *broker_token_ends(const struct broker *broker)
{
	struct registry *registry = broker->registry;

	return registry->records ? records_token_ends(registry->records)
				 : &registry->unsaved_token_ends;
}

size_t broker_init_request(const struct broker *broker, const void **ret_bytes)
{
	const struct broker_record *record =
		records_get(broker->registry->records, RECORD_BROKER, 1);

	*ret_bytes = record ? record->init : NULL;
	return record ? record->init_bytes : 0;
}

void broker_note_init_request(struct broker *broker, const void *bytes, size_t length)
{
	struct records *records = broker->registry->records;
	const struct broker_record *old = records_get(records, RECORD_BROKER, 1);
	struct broker_record record;

	if (!old || length > sizeof(record.init))
		return;
	pthread_mutex_lock(&broker->registry->lock);
	record = *old;
	record.init_bytes = (uint32_t)length;
	memcpy(record.init, bytes, length);
	records_save(records, RECORD_BROKER, 1, &record);
	pthread_mutex_unlock(&broker->registry->lock);
}

static bool was_tried_again(const struct broker_record *record, uint64_t unique)
{
	for (int i = 0; record && i < RECORD_AGAIN; i++) {
		if (record->again[i] == unique)
			return true;
	}
	return false;
}

bool broker_try_again(struct broker *broker, uint64_t unique)
{
	struct records *records = broker->registry->records;
	struct broker_record record;
	const struct broker_record *old;
	bool tried;

	pthread_mutex_lock(&broker->registry->lock);
	old = records_get(records, RECORD_BROKER, 1);
	tried = was_tried_again(old, unique);
	if (old && !tried) {
		record = *old;
		record.again[record.n_again++ % RECORD_AGAIN] = unique;
		records_save(records, RECORD_BROKER, 1, &record);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	return !tried;
}

/* ---- the journal, for the view ---- */

void broker_errors(struct broker *broker, const struct caller *caller, struct text *text)
{
	journal_failures(broker->journal, caller->uid, text);
}

void broker_fail(struct broker *broker, const struct caller *caller, const char *file,
		 int error, const char *format, ...)
{
	char sentence[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	journal_fail(broker->journal, caller->uid, caller->pid, file, error, sentence);
}

void broker_events(struct broker *broker, struct text *text)
{
	journal_events(broker->journal, text);
}

int broker_reader_take(struct broker *broker, const struct caller *caller)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	struct owner *owner;
	int r = -ENOMEM;

	pthread_mutex_lock(&broker->registry->lock);
	owner = owner_get(broker->registry, caller->uid, caller->gid);
	if (owner)
		r = share_take(owner, SHARE_READERS, 1);
	if (r < 0 && owner)
		share_explain(owner, &text);
	pthread_mutex_unlock(&broker->registry->lock);
	if (r < 0 && owner)
		broker_fail(broker, caller, "events_pipe", -r, "%s", text_string(&text));
	return r;
}

void broker_reader_give(struct broker *broker, const struct caller *caller)
{
	pthread_mutex_lock(&broker->registry->lock);
	share_give(owner_get(broker->registry, caller->uid, caller->gid), SHARE_READERS,
		   1);
	pthread_mutex_unlock(&broker->registry->lock);
}

int broker_text_charge(struct broker *broker, const struct caller *caller,
		       const char *file, uint64_t before, uint64_t now)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	struct owner *owner;
	int r = -ENOMEM;

	pthread_mutex_lock(&broker->registry->lock);
	owner = owner_get(broker->registry, caller->uid, caller->gid);
	if (owner) {
		share_give(owner, SHARE_TEXTS, before);
		r = share_take(owner, SHARE_TEXTS, now);
		if (r < 0) {
			share_explain(owner, &text);
			share_take_beyond(owner, SHARE_TEXTS, before);
		}
	}
	pthread_mutex_unlock(&broker->registry->lock);
	if (r < 0 && owner)
		broker_fail(broker, caller, file, -r, "%s", text_string(&text));
	return r;
}

struct event_reader *event_reader_new(struct broker *broker, void (*wake)(void *userdata),
				      void *userdata)
{
	return journal_reader_new(broker->journal, wake, userdata);
}
