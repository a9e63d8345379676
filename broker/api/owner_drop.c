/* SPDX-License-Identifier: MIT */
#include "api/owner_drop.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/user_names.h"
#include "memory/block.h"
#include "memory/slab.h"
#include "model/device.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "model/stream.h"
#include "process/output.h"
#include "process/processes.h"
#include "process/worker.h"

/* An owner is kept for so many times the time after which an idle worker ends. */
#define KEPT_IDLES 10
/* With more owners than this, output keeps none. */
#define OWNERS_WITH_OUTPUT 1024

static bool owner_has_streams(const struct owner *owner)
{
	unsigned int n = 0, n_defaults = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(owner->wire_streams); i++)
		n += (unsigned int)__builtin_popcountll(owner->wire_streams[i]);
	n -= owner->wire_streams[0] & 1; /* number 0 is not a stream */
	for (unsigned int i = 0; i < DEVICES_MAX; i++) {
		const struct stream *stream = owner->defaults[i];

		n_defaults += stream != NULL;
		if (stream && (stream->n_works || stream->last || stream->n_allocations))
			return true;
	}
	return n > n_defaults;
}

static bool owner_is_charged(const struct owner *owner)
{
	for (int i = 0; i < N_SHARES; i++) {
		if (owner->shares.held[i])
			return true;
	}
	return false;
}

static bool output_is_wanted(const struct broker *broker, const struct owner *owner)
{
	if (!owner->output)
		return false;
	return output_is_open(owner->output) ||
	       (!output_is_empty(owner->output) &&
		HASH_COUNT(broker->registry->owners_by_uid) <= OWNERS_WITH_OUTPUT);
}

/* Whether the owner has nothing, and no limits of its own. Under registry.lock. */
static bool owner_is_over(const struct broker *broker, const struct owner *owner)
{
	int64_t kept_ms = (int64_t)broker->processes->worker_idle_s * 1000 * KEPT_IDLES;

	return clock_ms() - owner->used_ms >= kept_ms && !owner->n_readers &&
	       !owner->shares.limits.given && !owner_is_charged(owner) &&
	       !owner->n_in_worker && !owner_has_streams(owner) &&
	       (!owner->worker || worker_is_unused(owner->worker)) &&
	       !owner->looks_at_mapped && !output_is_wanted(broker, owner);
}

static bool owner_is_guest(const struct owner *owner)
{
	return owner->worker &&
	       __atomic_load_n(&owner->worker->n_guests, __ATOMIC_RELAXED);
}

static bool any_is_over_and_guest(const struct broker *broker)
{
	const struct owner *owner;

	for (owner = broker->registry->owners_by_uid; owner; owner = owner->hh.next) {
		if (owner_is_guest(owner) && owner_is_over(broker, owner))
			return true;
	}
	return false;
}

static void guests_leave(const struct broker *broker, struct block *block)
{
	_cleanup_free_ const void **guests = NULL;
	int n = block_guests(broker->memory, block, &guests);

	/* Without memory they stay for the next time. */
	for (int i = 0; i < n; i++) {
		const struct worker *worker = guests[i];

		if (owner_is_over(broker, worker->owner))
			block_forget_guest(broker->memory, block, worker);
	}
}

/*
 * Takes the workers of owners that are over, which have no process, off the memory of
 * others. One walk is for all of them, since there may be many. A worker stays where an
 * operation may still ask it.
 */
static void owners_leave_memory(const struct broker *broker)
{
	const struct allocation *allocation;
	struct allocation_walk walk = { 0 };

	while ((allocation = allocation_walk_next(broker->registry, &walk))) {
		/* The block of one being made is written without the lock. */
		if (allocation->state != ALLOCATION_MAKING && allocation->block &&
		    !allocation->n_works)
			guests_leave(broker, allocation->block);
	}
}

static void owner_drop(struct broker *broker, struct owner *owner)
{
	for (unsigned int i = 0; i < DEVICES_MAX; i++) {
		if (owner->defaults[i])
			stream_free(broker->registry, owner->defaults[i]);
	}
	owner->pool = slab_pool_free(owner->pool);
	if (owner->worker)
		worker_deinit(owner->worker);
	free(owner->worker);
	owner->output = output_free(owner->output);
	user_names_drop(broker->registry->user_names, owner->uid);
	owner_free(broker->registry, owner);
}

void owners_drop(struct broker *broker)
{
	struct owner *owner, *safe;

	pthread_mutex_lock(&broker->registry->lock);
	if (any_is_over_and_guest(broker))
		owners_leave_memory(broker);
	HASH_ITER (hh, broker->registry->owners_by_uid, owner, safe) {
		if (!owner_is_over(broker, owner))
			continue;
		/* An owner who is still a guest is kept as long again. */
		if (owner_is_guest(owner))
			owner->used_ms = clock_ms();
		else
			owner_drop(broker, owner);
	}
	pthread_mutex_unlock(&broker->registry->lock);
}
