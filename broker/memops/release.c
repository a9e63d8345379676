/* SPDX-License-Identifier: MIT */
/*
 * The end of allocations.
 *
 * A free removes the allocation from the tree at once and never waits. The rest is an op
 * that writes the whole allocation, so it runs after all earlier uses. The op releases
 * the memory, and then the struct is freed. Before that, all workers unmap the block, one
 * after the other: the driver keeps memory that is mapped.
 */
#include <errno.h>

#include "base/crash.h"
#include "base/workqueue.h"
#include "memops/allocate.h"
#include "memops/give_back.h"
#include "memops/lease.h"
#include "memops/lifetime.h"
#include "memops/move.h"
#include "memops/readahead.h"
#include "memops/release.h"
#include "memops/shut_off.h"
#include "memops/tensors.h"
#include "memory/block.h"
#include "memory/reclaim.h"
#include "memory/slab.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "op/op.h"
#include "process/checkpoint.h"
#include "process/processes.h"
#include "record/records.h"

struct release {
	struct op op;
	struct allocation *allocation;
	bool counted; /* as being reclaimed; registry.lock */
	struct held_piece held;
	struct deadline slow; /* for the worker's answer */
};

static struct reclaim_from allocation_from(const struct allocation *allocation)
{
	return (struct reclaim_from){ allocation_place(allocation), allocation->owner };
}

/* Returns: whether the memory counted. Under registry.lock. */
static bool release_uncount(struct release *release)
{
	struct reclaim *reclaim = release->op.broker->reclaim;
	bool counted = release->counted || release->held.prev;

	reclaim_unhold(reclaim, &release->held);
	if (release->counted)
		reclaim_postpone(reclaim, allocation_from(release->allocation));
	release->counted = false;
	return counted;
}

static void release_block_done(void *userdata)
{
	struct op *op = userdata;

	op_done(op, 0);
}

/* A user's worker keeps the memory: requests of others wait no more. */
static void release_block_held(void *userdata)
{
	(void)release_uncount(container_of((struct op *)userdata, struct release, op));
}

void release_count(struct op *op)
{
	struct release *release = container_of(op, struct release, op);
	struct reclaim_from from = allocation_from(release->allocation);

	if (release->counted)
		return;
	release_uncount(release);
	if (op->work.held_by != HOLDER_NONE) {
		reclaim_hold(op->broker->reclaim, &release->held, from,
			     release->allocation->size, op->work.held_by);
		return;
	}
	release->counted = true;
	reclaim_begin(op->broker->reclaim, from);
}

/*
 * A leased allocation waits for its last lease, and does not count as being reclaimed:
 * requests that find the device full do not wait for it. They do wait for processes that
 * are ending.
 */
static bool release_is_parked(struct op *op, struct allocation *allocation)
{
	struct release *release = container_of(op, struct release, op);
	struct broker *broker = op->broker;
	bool parked, leased, postponed;
	struct reclaimed reclaimed;

	pthread_mutex_lock(&broker->registry->lock);
	reclaimed = reclaimed_of(allocation_from(allocation));
	parked = lease_park_release(allocation);
	leased = parked && allocation->rare->leases;
	postponed = leased && release_uncount(release);
	if (!leased)
		release_count(op);
	pthread_mutex_unlock(&broker->registry->lock);
	if (postponed)
		reclaim_retry(broker->reclaim, broker->registry, reclaimed);
	return parked;
}

/*
 * The owner's worker is stopped, or its driver waits for a kernel: from now on the owner
 * holds the memory, and nobody else waits for it. Under registry.lock.
 */
static void release_is_slow(struct deadline *deadline)
{
	struct release *release = container_of(deadline, struct release, slow);
	struct reclaim_from from = allocation_from(release->allocation);
	struct broker *broker = release->op.broker;

	(void)release_uncount(release);
	reclaim_hold(broker->reclaim, &release->held, from, release->allocation->size,
		     holder_of(from.owner->uid));
	reclaim_retry_later(broker, from);
}

static void release_ask(struct release *release)
{
	struct op *op = &release->op;

	pthread_mutex_lock(&op->broker->registry->lock);
	deadline_set(op->broker, &release->slow, GIVE_BACK_PROMPT_MS, release_is_slow);
	pthread_mutex_unlock(&op->broker->registry->lock);
	op_request(op);
}

void allocation_resume_release(struct op *op)
{
	op_start_again(op);
}

static void release_run(struct op *op)
{
	struct allocation *allocation = container_of(op, struct release, op)->allocation;
	struct block *block = allocation->block;

	if (release_is_parked(op, allocation))
		return;
	if (allocation->rare->former_block)
		cell_give_back(op->broker, allocation->owner,
			       take_ptr(allocation->rare->former_block),
			       allocation->rare->former_cell);
	if (block && block->slab)
		block = cell_put(allocation->owner->pool, block, allocation->cell);
	if (block) {
		block_give_back(op->broker, allocation->owner, block,
				(struct give_back_tell){ release_block_held,
							 release_block_done, op });
		return;
	}
	/* Without a worker it was lost with the last broker. */
	if (allocation->block || allocation->state == ALLOCATION_LOST || !op->worker ||
	    !worker_runs(op->worker, allocation->worker_epoch)) {
		op_done(op, 0);
		return;
	}
	op->request.record = (struct wire_request){
		.op = WIRE_FREE,
		.flags = allocation->kind == KIND_ASYNC ? WIRE_ASYNC : 0,
		.device = allocation->device,
		.address = allocation->address,
	};
	release_ask(container_of(op, struct release, op));
}

static void release_finish(struct op *op)
{
	struct release *release = container_of(op, struct release, op);
	struct broker *broker = op->broker;
	struct reclaim_from from = allocation_from(release->allocation);
	struct reclaimed reclaimed = reclaimed_of(from);

	pthread_mutex_lock(&broker->registry->lock);
	if (!kind_is_durable(release->allocation->kind)) {
		release->allocation->owner->n_in_worker--;
		crash_let_go();
	}
	deadline_clear(broker, &release->slow);
	(void)release_uncount(release);
	reclaim_begin(broker->reclaim, from);
	reclaim_end(broker->reclaim, from);
	release->allocation = allocation_free(broker->registry, release->allocation);
	pthread_mutex_unlock(&broker->registry->lock);
	reclaim_retry(broker->reclaim, broker->registry, reclaimed);
}

static const struct op_class release_class = {
	.what = "free",
	.brief = true,
	.run = release_run,
	.on_lost = true,
	.quiet = true,
};

void allocation_release_held(struct broker *broker, struct allocation *allocation,
			     const struct caller *by, struct op **ready)
{
	struct op *op =
		op_new(sizeof(struct release), &release_class, broker, allocation->owner);
	struct op *more = NULL;
	int r = -ENOMEM;

	/* An allocation that is freed again has no folder, and the last broker told of
	 * it. */
	if (allocation->entry.folder)
		journal_event_by(broker->journal, by,
				 "free allocations/%s id=%llu size=%llu",
				 allocation_name(allocation).text,
				 (unsigned long long)allocation->id,
				 (unsigned long long)allocation->size);
	registry_note_freed(broker->registry, allocation);
	readahead_free(broker, allocation->rare->readahead, ready);
	records_begin(broker->registry->records);
	lifetime_leave(allocation);
	if (allocation->rare->tensors)
		tensors_set(broker, allocation, NULL);
	allocation_withdraw(broker->registry, allocation);
	move_charge_settle(broker, allocation);
	records_end(broker->registry->records);
	leases_note_freed(broker, allocation);
	if (op) {
		container_of(op, struct release, op)->allocation = allocation;
		op->finish = release_finish;
		if (!kind_is_durable(allocation->kind))
			op->worker = allocation->owner->worker;
		op->work.stream = allocation->stream;
		work_use(&op->work, allocation, 0, allocation->size, true);
		/* No op will read the memory, so no zeroing is needed. */
		allocation->zeros_from = allocation->size;
		r = op_add_unlimited(op, &more);
	}
	/*
	 * Counts as being reclaimed from now on, even if the op has to wait for work that
	 * ends soon: allocate.c relies on this. Leased memory counts when its last lease
	 * has ended.
	 */
	if (r == 0)
		allocation->release = &op->work;
	if (r == 0 && !allocation->rare->leases)
		release_count(op);
	/* Out of memory: the bytes stay allocated and counted until the end. */
	if (r < 0)
		op_free(op);
	op_push_all(ready, more);
}

/* A guest's process that is ended may save the guest's own memory. */
static void guests_hurry(struct broker *broker, struct block *block, unsigned int ms)
{
	_cleanup_free_ const void **guests = NULL;
	int n = block ? block_guests(broker->memory, block, &guests) : 0;

	for (int i = 0; i < n; i++) {
		struct worker *worker = (struct worker *)guests[i];

		(void)checkpoint_hurry_stuck(
			worker, worker_mapped_epoch(worker, block, true), ms);
	}
}

/* Guests still use the memory, or have work queued that will. */
static void release_passed(struct deadline *deadline)
{
	struct op *op = container_of(deadline, struct op, deadline);
	struct allocation *allocation = container_of(op, struct release, op)->allocation;
	const unsigned int patience_ms = op->broker->ops->give_back_ms / 2;
	struct op *ready = NULL;

	if (allocation->all_uses->work == &op->work)
		return;
	/* Out of memory: the next time. */
	(void)guests_turn_away(allocation, &ready);
	guests_end_before(op, NULL);
	guests_hurry(op->broker, allocation->block, patience_ms);
	op_start_later(ready);
	deadline_set(op->broker, deadline, patience_ms, release_passed);
}

/* A publish ends nobody's work with the memory that it replaces; a free does, in time. */
static void release_limit(struct broker *broker, const struct allocation *allocation)
{
	struct op *op;

	if (!allocation->release)
		return;
	op = container_of(allocation->release, struct op, work);
	deadline_set(broker, &op->deadline, broker->ops->give_back_ms, release_passed);
}

bool release_is_limited(const struct allocation *allocation)
{
	return allocation->release &&
	       container_of(allocation->release, struct op, work)->deadline.at_ms;
}

void allocation_release_by(struct broker *broker, struct allocation *allocation,
			   const struct caller *by)
{
	struct op *ready = NULL;

	allocation_release_held(broker, allocation, by, &ready);
	release_limit(broker, allocation);
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(ready);
}

void allocation_release(struct broker *broker, struct allocation *allocation)
{
	allocation_release_by(broker, allocation, NULL);
}
