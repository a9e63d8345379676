/* SPDX-License-Identifier: MIT */
#include "process/processes.h"
#include "process/worker_instance.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/number.h"
#include "base/warning.h"
#include "channel/channel.h"
#include "memory/block.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/stream.h"
#include "process/checkpoint.h"
#include "process/device_query.h"

/* Slots of the staging area; each thread of the view reads requests into the mover's. */
#define OWNER_SLOTS 8
#define MOVER_SLOTS 48

void worker_init(struct worker *worker, struct broker *broker, struct owner *owner)
{
	*worker = (struct worker){ .broker = broker, .owner = owner };
	pthread_mutex_init(&worker->lock, NULL);
}

int worker_prepare_locked(struct worker *worker)
{
	char name[32] = "gpumem-mover";
	int r;

	if (worker->prepared)
		return 0;
	if (worker->owner)
		snprintf(name, sizeof(name), "gpumem-%u", worker->owner->uid);
	r = staging_init(&worker->staging, name,
			 worker->owner ? OWNER_SLOTS : MOVER_SLOTS);
	if (r == 0)
		__atomic_store_n(&worker->prepared, true, __ATOMIC_RELEASE);
	return r;
}

int worker_prepare(struct worker *worker)
{
	int r;

	if (__atomic_load_n(&worker->prepared, __ATOMIC_ACQUIRE))
		return 0;
	pthread_mutex_lock(&worker->lock);
	r = worker_prepare_locked(worker);
	pthread_mutex_unlock(&worker->lock);
	return r;
}

const char *worker_lacks_means(int r)
{
	switch (r) {
	case -EMFILE:
		return "no worker can be started: the broker has no descriptors left";
	case -ENFILE:
		return "no worker can be started: the machine has no descriptors left";
	case -EBUSY:
		return "no worker can be started: earlier ones have ended, and somebody "
		       "keeps the broker from closing them";
	case -ENOMEM:
		return "no memory in the broker";
	default:
		return NULL;
	}
}

int worker_start_errno(int r)
{
	if (r == -ENFILE)
		return EMFILE;
	return worker_lacks_means(r) ? -r : EIO;
}

void worker_deinit(struct worker *worker)
{
	staging_deinit(&worker->staging);
	pthread_mutex_destroy(&worker->lock);
}

bool worker_is_unused(struct worker *worker)
{
	bool unused;

	pthread_mutex_lock(&worker->lock);
	unused = !worker->channel && !worker->instances && !worker->slot_waiters &&
		 !worker->n_readaheads;
	pthread_mutex_unlock(&worker->lock);
	return unused;
}

struct worker *worker_of(struct broker *broker, struct owner *owner)
{
	struct worker *worker;

	if (owner->worker)
		return owner->worker;
	if (!owner->output)
		owner->output = output_new(&broker->processes->outputs,
					   broker->registry->records, owner->uid);
	worker = calloc(1, sizeof(*worker));
	if (!worker || !owner->output) {
		free(worker);
		return NULL;
	}
	worker_init(worker, broker, owner);
	worker->n_barren = owner->n_barren;
	memcpy(worker->end_reason, owner->end_reason, sizeof(worker->end_reason));
	owner->worker = worker;
	return worker;
}

struct worker *allocation_worker(struct broker *broker,
				 const struct allocation *allocation)
{
	if (kind_is_durable(allocation->kind))
		return &broker->processes->mover;
	return worker_of(broker, allocation->owner);
}

/* ---- asking ---- */

uint32_t *block_epoch(struct worker *worker, struct block *block, bool guest)
{
	struct guest *entry;

	if (!guest)
		return worker->owner ? &block->owner_epoch : &block->mover_epoch;
	entry = block_guest(worker->broker->memory, block, worker, &worker->n_guests);
	return entry ? &entry->epoch : NULL;
}

static bool guest_lacks_writing(const uint32_t *epoch, const struct needed_block *needed)
{
	return needed->guest && needed->written &&
	       !container_of(epoch, const struct guest, epoch)->writable;
}

/* Maps missing blocks. Returns: 0; -ENOMEM, -EMFILE, -EROFS. */
static int worker_map(struct worker *worker, const struct worker_needs *needs)
{
	for (unsigned int i = 0; i < needs->n_blocks; i++) {
		const struct needed_block *needed = &needs->blocks[i];
		uint32_t *epoch = block_epoch(worker, needed->block, needed->guest);
		_cleanup_close_ int fd = -1;
		int r;

		if (!epoch)
			return -ENOMEM;
		/* The write would fault, and the process would lose its contexts. */
		if (*epoch == worker->epoch && guest_lacks_writing(epoch, needed))
			return -EROFS;
		if (*epoch == worker->epoch)
			continue;
		/* Whoever takes over a worker has its descriptors, too. */
		fd = needed->guest && !needed->writable
			     ? block_share_reading(needed->block)
			     : block_share(needed->block);
		if (fd < 0)
			return fd;
		r = instance_tell_block(worker->instance, needed, &fd);
		if (r < 0)
			return r;
	}
	return 0;
}

int worker_send(struct worker *worker, const struct worker_needs *needs,
		struct request *request, uint32_t *ret_epoch)
{
	int r = 0;

	pthread_mutex_lock(&worker->lock);
	if (needs->epoch && (needs->epoch != worker->epoch || !worker_is_up(worker)))
		r = -ESTALE;
	if (r == 0 && !worker_is_up(worker))
		r = worker_start(worker);
	if (r == 0)
		r = worker_map(worker, needs);
	/* The process may have ended and been replaced meanwhile. */
	if (r == 0 && needs->epoch && needs->epoch != worker->epoch)
		r = -ESTALE;
	if (r == 0 && needs->stream)
		r = instance_tell_stream(worker->instance, needs->stream);
	if (r == 0 && needs->image)
		r = instance_tell_image(worker->instance, needs->image);
	if (r == 0) {
		worker->last_asked_ms = clock_ms();
		*ret_epoch = worker->epoch;
		r = instance_send(worker->instance, needs, request);
	}
	pthread_mutex_unlock(&worker->lock);
	return r;
}

uint32_t worker_mapped_epoch(struct worker *worker, struct block *block, bool guest)
{
	const uint32_t *epoch;
	uint32_t found;

	pthread_mutex_lock(&worker->lock);
	epoch = block_epoch(worker, block, guest);
	found = epoch ? *epoch : 0;
	pthread_mutex_unlock(&worker->lock);
	return found;
}

bool worker_unmap(struct worker *worker, struct block *block, bool guest,
		  struct request *request, uint32_t *ret_epoch)
{
	uint32_t *epoch;
	bool mapped;

	pthread_mutex_lock(&worker->lock);
	epoch = block_epoch(worker, block, guest);
	mapped =
		epoch && *epoch == worker->epoch && worker->epoch && worker_is_up(worker);
	if (epoch)
		*epoch = 0;
	*ret_epoch = worker->epoch;
	worker_forget(worker, block, NULL);
	if (mapped)
		channel_send(worker->channel, request);
	pthread_mutex_unlock(&worker->lock);
	return mapped;
}

/* Under worker->lock. NULL: the process has not mapped the block. */
static const struct guest *worker_guest(struct worker *worker, struct block *block)
{
	const struct guest *entry =
		block_guest(worker->broker->memory, block, worker, NULL);

	return entry && entry->epoch && entry->epoch == worker->epoch ? entry : NULL;
}

bool worker_is_guest(struct worker *worker, struct block *block)
{
	bool mapped;

	pthread_mutex_lock(&worker->lock);
	mapped = worker_guest(worker, block) != NULL;
	pthread_mutex_unlock(&worker->lock);
	return mapped;
}

bool worker_is_reader(struct worker *worker, struct block *block)
{
	const struct guest *entry;
	bool reads_only;

	pthread_mutex_lock(&worker->lock);
	entry = worker_guest(worker, block);
	reads_only = entry && !entry->writable;
	pthread_mutex_unlock(&worker->lock);
	return reads_only;
}

/* ---- starting in advance ---- */

bool worker_want(struct worker *worker, uint32_t epoch)
{
	const struct stream *stream;

	pthread_mutex_lock(&worker->lock);
	DL_FOREACH (worker->owner->streams, stream) {
		if (stream->made_epoch == epoch)
			worker->used |= 1u << stream->device;
	}
	for (unsigned int i = 0; i < DEVICES_MAX; i++) {
		stream = worker->owner->defaults[i];
		if (stream && stream->made_epoch == epoch)
			worker->used |= 1u << i;
	}
	pthread_mutex_unlock(&worker->lock);
	worker->wanted = worker->used;
	broker_wake_housekeeper(worker->broker);
	return worker->wanted;
}

/* The contexts exist, or the process has ended: then the next request starts another. */
static void worker_woken(struct device_query *query)
{
	checkpoint_run_ready(query->worker->broker, query->worker);
	free(query);
}

void worker_wake(struct worker *worker, uint32_t devices)
{
	struct device_query *query = calloc(1, sizeof(*query));

	if (!query)
		return;
	query->done = worker_woken;
	device_query(query, worker, devices);
}

void worker_lose_allocation(struct broker *broker, struct allocation *allocation,
			    const char *why, struct loss *loss)
{
	struct full_name name = allocation_name(allocation);
	size_t length = strlen(loss->names);

	if (allocation->state != ALLOCATION_LIVE)
		return;
	/* What does not fit is in the count. */
	if (length + strlen(name.text) + 3 < sizeof(loss->names))
		snprintf(loss->names + length, sizeof(loss->names) - length, "%s%s",
			 loss->n ? ", " : "", name.text);
	loss->n++;
	loss->bytes += allocation->size;
	allocation_lose(broker->registry, allocation, why);
	journal_event(broker->journal, "lost allocations/%s id=%llu reason=\"%s\"",
		      name.text, (unsigned long long)allocation->id, why);
}

void loss_tell(struct broker *broker, const struct owner *owner, const struct loss *loss,
	       const char *why)
{
	char object[32];

	if (!loss->n)
		return;
	snprintf(object, sizeof(object), "owners/%u", owner->uid);
	warnings_add(broker->journal->warnings, WARNING_MEMORY_LOST, owner->uid, object,
		     "uid %u has lost %u allocation%s of %s: the worker %s. Lost: %s",
		     owner->uid, loss->n, loss->n == 1 ? "" : "s", size_text(loss->bytes),
		     why, loss->names);
}
