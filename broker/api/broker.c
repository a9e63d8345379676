/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/broker.h"
#include "base/clock.h"
#include "control/verbs.h"
#include "kernels/module_use.h"
#include "memops/lease.h"
#include "memops/release.h"
#include "op/op.h"
#include "process/checkpoint.h"
#include "process/processes.h"

/* The broker put together: one piece of memory. */
struct whole {
	struct broker broker;
	struct processes processes;
	struct ops ops;
	struct leases leases;
};

/* Slots of the mover's staging area: each view thread reads requests into one. */
#define MOVER_SLOTS 48
/* How long the work under way may take to finish, a worker to end by itself, and the
 * kernel to end a worker that was killed. */
#define STOP_SECONDS 5
#define MOVER_MS     1000 /* between two starts of the mover */
#define ROUND_MS     1000 /* between two rounds of the housekeeper, at most */

/* ---- workers ---- */

/* ---- the housekeeper ---- */

static void life_bury_runs(struct broker *broker)
{
	unsigned int n = 0;
	struct run *run;

	pthread_mutex_lock(&broker->registry.lock);
	run = take_ptr(broker->processes->dead_runs);
	pthread_mutex_unlock(&broker->registry.lock);
	for (; run; n++)
		run = run_free(run);
	if (!n)
		return;
	pthread_mutex_lock(&broker->registry.lock);
	if (__atomic_sub_fetch(&broker->processes->n_runs, n, __ATOMIC_RELAXED) == 0)
		pthread_cond_broadcast(&broker->registry.idle);
	pthread_mutex_unlock(&broker->registry.lock);
}

/* Ends owners' workers that hold nothing and have had nothing to do for a while. */
static void life_end_idle(struct broker *broker)
{
	struct owner *owner, *safe;

	pthread_mutex_lock(&broker->registry.lock);
	HASH_ITER (hh, broker->registry.owners_by_uid, owner, safe) {
		if (owner->worker && owner->n_in_worker == 0)
			worker_end_idle(owner->worker, broker->processes->worker_idle_s);
	}
	pthread_mutex_unlock(&broker->registry.lock);
}

/* Has the mover started, so that it is up by the time that it is needed. */
static void mover_started(struct wait *wait, int error, const void *bytes, size_t length)
{
	(void)error;
	(void)bytes;
	(void)length;
	free(wait);
}

static void life_start_mover(struct broker *broker)
{
	struct wait *wait = calloc(1, sizeof(*wait));

	if (!wait)
		return;
	wait->done = mover_started;
	broker_space(broker, wait);
}

/*
 * The mover has died: data must move again, but not start in a circle.
 * Returns: milliseconds until it may be started, -1 where nothing is to be done.
 */
static int64_t life_restart_mover(struct broker *broker)
{
	int64_t now = clock_ms(), next = broker->processes->mover_started_ms + MOVER_MS;
	bool wanted, due;

	pthread_mutex_lock(&broker->registry.lock);
	wanted = broker->processes->mover_wanted && !broker->registry.shutting_down;
	due = wanted && now >= next;
	if (due)
		broker->processes->mover_wanted = false;
	pthread_mutex_unlock(&broker->registry.lock);
	if (due) {
		broker->processes->mover_started_ms = now;
		life_start_mover(broker);
	}
	return wanted && !due ? next - now : -1;
}

/* Whose worker has been given up has it again by the time that he needs it. */
static void life_wake_workers(struct broker *broker)
{
	struct owner *owner, *safe;
	struct worker *worker;
	uint32_t wanted;

	do {
		worker = NULL;
		pthread_mutex_lock(&broker->registry.lock);
		HASH_ITER (hh, broker->registry.owners_by_uid, owner, safe) {
			if (!owner->worker || !owner->worker->wanted)
				continue;
			worker = owner->worker;
			wanted = worker->wanted;
			worker->wanted = 0;
			break;
		}
		pthread_mutex_unlock(&broker->registry.lock);
		if (worker)
			worker_wake(worker, wanted);
	} while (worker);
}

/* The shorter of two waits; negative: there is none. */
static int64_t min_wait(int64_t wait_ms, int64_t other_ms)
{
	return wait_ms < 0 ? other_ms : MIN(wait_ms, other_ms);
}

/* Sleeps until then, or until something is wanted. Returns: false at the end. */
static bool housekeeper_wait(struct broker *broker, int64_t until_ms)
{
	bool stop;
	int r = 0;

	pthread_mutex_lock(&broker->registry.lock);
	while (!broker->processes->housekeeper_wanted &&
	       !broker->processes->housekeeper_stop && r == 0)
		r = clock_cond_wait(&broker->processes->housekeeper_wake,
				    &broker->registry.lock, until_ms);
	/* What is wanted from here on, be it by the round itself, is another round's. */
	broker->processes->housekeeper_wanted = false;
	stop = broker->processes->housekeeper_stop;
	pthread_mutex_unlock(&broker->registry.lock);
	return !stop;
}

static void *housekeeper_main(void *userdata)
{
	struct broker *broker = userdata;
	int64_t next_ms;
	bool goes_on;

	do {
		next_ms = min_wait(deadlines_check(broker), ROUND_MS);
		next_ms = min_wait(rescue_check_limits(broker), next_ms);
		next_ms = min_wait(life_restart_mover(broker), next_ms);
		goes_on = housekeeper_wait(broker, clock_ms() + next_ms + 1);
		life_bury_runs(broker);
		life_wake_workers(broker);
		life_end_idle(broker);
	} while (goes_on);
	return NULL;
}

static void housekeeper_end(struct broker *broker)
{
	if (!broker->processes->housekeeper_runs)
		return;
	pthread_mutex_lock(&broker->registry.lock);
	broker->processes->housekeeper_stop = true;
	pthread_cond_signal(&broker->processes->housekeeper_wake);
	pthread_mutex_unlock(&broker->registry.lock);
	pthread_join(broker->processes->housekeeper, NULL);
	broker->processes->housekeeper_runs = false;
}

/* ---- the start ---- */

static int device_attribute(struct broker *broker, CUdevice_attribute attribute,
			    CUdevice id)
{
	int value = 0;

	if (CUDA(broker->driver, NULL, cuDeviceGetAttribute, &value, attribute, id) < 0)
		return 0;
	return value;
}

static void device_format_uuid(const CUuuid *uuid, char *text, size_t size)
{
	size_t length = (size_t)snprintf(text, size, "GPU-");

	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			length += (size_t)snprintf(text + length, size - length, "-");
		length += (size_t)snprintf(text + length, size - length, "%02x",
					   (unsigned char)uuid->bytes[i]);
	}
}

static void device_find_limits(struct broker *broker, CUdevice id,
			       struct launch_limits *limits)
{
	for (int i = 0; i < 3; i++) {
		limits->grid[i] = (uint32_t)device_attribute(
			broker, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i, id);
		limits->block[i] = (uint32_t)device_attribute(
			broker, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i, id);
	}
	limits->threads = (uint32_t)device_attribute(
		broker, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, id);
	limits->shared = (uint32_t)device_attribute(
		broker, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, id);
	limits->cooperative =
		device_attribute(broker, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, id);
	limits->cluster =
		device_attribute(broker, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, id);
}

/* Whose memory a kernel there can use. */
static uint32_t device_find_peers(struct broker *broker, uint32_t index, CUdevice id)
{
	uint32_t peers = 1u << index;

	for (uint32_t i = 0; i < broker->registry.n_devices; i++) {
		CUdevice other;
		int reaches = 0;

		if (CUDA(broker->driver, NULL, cuDeviceGet, &other, (int)i) == 0 &&
		    CUDA(broker->driver, NULL, cuDeviceCanAccessPeer, &reaches, id,
			 other) == 0 &&
		    reaches)
			peers |= 1u << i;
	}
	return peers;
}

static int device_new(struct device **ret_device, struct broker *broker, uint32_t index,
		      struct cuda_failure *failure)
{
	_cleanup_free_ struct device *device = calloc(1, sizeof(*device));
	struct cuda_driver *driver = broker->driver;
	size_t total = 0;
	CUuuid uuid = { 0 };
	CUdevice id;
	int r;

	if (!device)
		return -ENOMEM;
	device->index = index;
	r = CUDA(driver, failure, cuDeviceGet, &id, (int)index);
	if (r == 0)
		r = CUDA(driver, failure, cuDeviceGetName, device->name,
			 (int)sizeof(device->name), id);
	if (r == 0)
		r = CUDA(driver, failure, cuDeviceGetUuid_v2, &uuid, id);
	if (r == 0)
		r = CUDA(driver, failure, cuDeviceGetPCIBusId, device->pci_bus_id,
			 (int)sizeof(device->pci_bus_id), id);
	if (r == 0)
		r = CUDA(driver, failure, cuDeviceTotalMem_v2, &total, id);
	if (r < 0)
		return r;
	device->memory_total = total;
	device_format_uuid(&uuid, device->uuid, sizeof(device->uuid));
	device->major = device_attribute(
		broker, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, id);
	device->minor = device_attribute(
		broker, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, id);
	device->has_vmm =
		device_attribute(broker,
				 CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
				 id) &&
		device_attribute(
			broker,
			CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
			id);
	device->has_managed =
		device_attribute(broker, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, id);
	device->has_concurrent = device_attribute(
		broker, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, id);
	device_find_limits(broker, id, &device->limits);
	device->peers = device_find_peers(broker, index, id);
	r = slots_add(&broker->registry.devices, device, &device->slot,
		      &device->slot_generation);
	if (r == 0)
		*ret_device = take_ptr(device);
	return r;
}

static int life_find_devices(struct broker *broker, struct cuda_failure *failure)
{
	int n, r;

	r = CUDA(broker->driver, failure, cuDeviceGetCount, &n);
	if (r < 0)
		return r;
	broker->registry.n_devices = MIN((unsigned int)n, (unsigned int)DEVICES_MAX);
	for (uint32_t i = 0; r == 0 && i < broker->registry.n_devices; i++)
		r = device_new(&broker->registry.device_at[i], broker, i, failure);
	return r;
}

static void life_deinit(struct broker *broker)
{
	struct owner *owner, *safe;

	housekeeper_end(broker);
	crew_deinit(&broker->crew);
	outputs_deinit(&broker->processes->outputs);
	leases_deinit(broker->leases);
	worker_deinit(&broker->processes->mover);
	HASH_ITER (hh, broker->registry.owners_by_uid, owner, safe) {
		owner->pool = chunk_pool_free(owner->pool);
		if (owner->worker)
			worker_deinit(owner->worker);
		free(take_ptr(owner->worker));
		owner->output = output_free(owner->output);
	}
	registry_deinit(&broker->registry);
	if (broker->memory.n_blocks == 0)
		memory_deinit(&broker->memory);
	journal_deinit(&broker->journal);
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
	broker->socket = config->socket ? strdup(config->socket) : NULL;
	broker->processes->worker_idle_s = config->worker_idle_s;
	broker->ops->launch_timeout_ms = config->launch_timeout_ms;
	broker->ops->give_back_ms = config->give_back_timeout_ms
					    ? config->give_back_timeout_ms
					    : GIVE_BACK_TIMEOUT_MS;
	if (!broker->processes->driver_path || !broker->processes->worker_program ||
	    !broker->version || (config->socket && !broker->socket))
		return -ENOMEM;
	r = cuda_driver_open(config->driver, &broker->driver, why);
	if (r < 0)
		return r;
	r = life_find_devices(broker, &failure);
	if (r == 0)
		r = memory_init(&broker->memory, broker->driver,
				broker->registry.n_devices, &failure);
	if (r == 0)
		r = worker_init(&broker->processes->mover, broker, NULL, MOVER_SLOTS);
	if (r < 0 || pthread_create(&broker->processes->housekeeper, NULL,
				    housekeeper_main, broker)) {
		text_printf(why, "the broker can't start: %s",
			    strerror(r < 0 ? -r : EAGAIN));
		text_add_call(why, failure.call, failure.result);
		return r < 0 ? r : -EAGAIN;
	}
	broker->processes->housekeeper_runs = true;
	life_start_mover(broker);
	return 0;
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
	broker->processes = &whole->processes;
	broker->ops = &whole->ops;
	broker->leases = &whole->leases;
	registry_init(&broker->registry);
	journal_init(&broker->journal);
	broker->processes->resume = op_resume;
	clock_cond_init(&broker->processes->housekeeper_wake);
	broker->processes->mover.staging.fd = -1;
	broker->processes->outputs.epoll = broker->processes->outputs.stop = -1;
	leases_init(broker->leases);
	r = crew_init(&broker->crew);
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

/* ---- the end ---- */

void broker_shutdown(struct broker *broker)
{
	pthread_mutex_lock(&broker->registry.lock);
	broker->registry.shutting_down = true;
	pthread_mutex_unlock(&broker->registry.lock);
	leases_end(broker);
}

/* Waits for the work under way, not for ever. Returns: whether all is done. */
static bool life_wait_idle(struct broker *broker)
{
	int64_t until_ms = clock_ms() + STOP_SECONDS * 1000;
	bool idle;
	int r = 0;

	pthread_mutex_lock(&broker->registry.lock);
	while (broker->registry.n_busy && r == 0)
		r = clock_cond_wait(&broker->registry.idle, &broker->registry.lock,
				    until_ms);
	idle = broker->registry.n_busy == 0;
	pthread_mutex_unlock(&broker->registry.lock);
	return idle;
}

static void life_stop_workers(struct broker *broker, unsigned int seconds)
{
	struct owner *owner, *safe;

	worker_close(&broker->processes->mover, seconds);
	HASH_ITER (hh, broker->registry.owners_by_uid, owner, safe) {
		if (owner->worker)
			worker_close(owner->worker, seconds);
	}
}

/*
 * Waits until the housekeeper has freed all runs. Each is killed if it does not end in
 * time; one whose process the kernel can't end, as while a device has gone, is left.
 * Returns: whether none is.
 */
static bool life_wait_runs(struct broker *broker, unsigned int seconds)
{
	int64_t until_ms = clock_ms() + (seconds + STOP_SECONDS) * 1000;
	bool gone;
	int r = 0;

	pthread_mutex_lock(&broker->registry.lock);
	while (__atomic_load_n(&broker->processes->n_runs, __ATOMIC_RELAXED) && r == 0)
		r = clock_cond_wait(&broker->registry.idle, &broker->registry.lock,
				    until_ms);
	gone = !__atomic_load_n(&broker->processes->n_runs, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&broker->registry.lock);
	return gone;
}

/* Which processes are left. */
static void life_tell_left(struct broker *broker, struct text *why)
{
	_cleanup_text_ struct text pids = TEXT_INIT;
	struct owner *owner, *safe;

	worker_tell_left(&broker->processes->mover, &pids);
	HASH_ITER (hh, broker->registry.owners_by_uid, owner, safe) {
		if (owner->worker)
			worker_tell_left(owner->worker, &pids);
	}
	text_printf(why, "worker processes that were killed have not ended: %s",
		    text_string(&pids));
}

/* The workers are gone: nothing is mapped, nothing is under way. */
static void life_free_allocations(struct broker *broker)
{
	struct allocation *allocation;

	for (uint32_t slot = 0;
	     (allocation = slots_next(&broker->registry.allocations, &slot)); slot++) {
		/* Still being made by the crew: the end has given up on it. */
		if (allocation->state == ALLOCATION_MAKING)
			continue;
		pthread_mutex_lock(&broker->registry.lock);
		allocation_release(broker, allocation);
	}
}

static void life_free_streams(struct broker *broker)
{
	struct stream *stream, *safe;

	HASH_ITER (hh, broker->registry.streams_by_name, stream, safe)
		stream_free(&broker->registry, stream);
}

void broker_drain(struct broker *broker)
{
	unsigned int seconds;

	if (broker->drained)
		return;
	broker->drained = true;
	/* What did not end in that time does not end in as much again. */
	seconds = life_wait_idle(broker) ? STOP_SECONDS : 0;
	life_stop_workers(broker, seconds);
	broker->left = !life_wait_runs(broker, seconds);
	/* What was open has been answered by the end of its worker. */
	if (!broker->left)
		life_wait_idle(broker);
}

int broker_free(struct broker *broker, struct text *why)
{
	unsigned int n_unreleased;
	uint64_t n_ops;

	broker_shutdown(broker);
	broker_drain(broker);
	/* The process ends now, and the kernel takes the rest when it can. */
	if (broker->left) {
		life_tell_left(broker, why);
		return -EIO;
	}
	life_free_allocations(broker);
	life_wait_idle(broker);
	pthread_mutex_lock(&broker->registry.lock);
	n_ops = broker->registry.n_busy;
	pthread_mutex_unlock(&broker->registry.lock);
	if (n_ops == 0) {
		modules_free(broker);
		life_free_streams(broker);
	}
	n_unreleased = __atomic_load_n(&broker->reclaim.n_kept, __ATOMIC_RELAXED);
	if (n_ops || n_unreleased) {
		text_printf(
			why,
			"%llu commands did not end, %u pieces of memory were not taken "
			"back by the driver",
			(unsigned long long)n_ops, n_unreleased);
		/* The process ends now, and the kernel takes the rest. */
		return -EIO;
	}
	life_deinit(broker);
	return 0;
}

/* ---- the journal, for the view ---- */

void broker_errors(struct broker *broker, const struct caller *caller, struct text *text)
{
	journal_failures(&broker->journal, caller->uid, text);
}

void broker_fail(struct broker *broker, const struct caller *caller, const char *file,
		 int error, const char *format, ...)
{
	char sentence[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	journal_fail(&broker->journal, caller->uid, caller->pid, file, error, sentence);
}

void broker_events(struct broker *broker, struct text *text)
{
	journal_events(&broker->journal, text);
}

struct event_reader *event_reader_new(struct broker *broker, void (*wake)(void *userdata),
				      void *userdata)
{
	return journal_reader_new(&broker->journal, wake, userdata);
}
