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
#include "memops/lease.h"
#include "memops/lifetime.h"
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

/* ---- blocks ---- */

/* Host memory up to this size is released at once: 64 MiB take the kernel 9 ms, and the
 * thread may be the one that reads requests. */
#define RELEASED_AT_ONCE ((uint64_t)1 << 20)
/* In the work queue, releases of an owner count as tasks of another owner. */
#define RELEASES ((uint64_t)1 << 32)

struct give_back {
	struct task task;
	struct request request;
	struct broker *broker;
	struct block *block;
	struct worker *workers[2]; /* may have it mapped; NULL: not any more */
	const void *guest;	   /* the last guest asked to unmap, or the only one */
	struct worker *asked;	   /* the last worker asked */
	uint32_t asked_epoch;
	struct deadline deadline;
	bool excused;	/* by kernels that ran at the last deadline; registry.lock */
	uint64_t whose; /* owner of the task in the work queue */
	bool kept;	/* only unmapped from one guest, not released */
	void (*done)(void *userdata);
	void *userdata;
};

static void give_back_next(struct give_back *give_back);

static void give_back_run(struct task *task)
{
	struct give_back *give_back = container_of(task, struct give_back, task);
	struct broker *broker = give_back->broker;
	struct block *block = give_back->block;
	struct reclaim_from from = { block->place, block->payer };
	uint64_t size = block->size;
	bool described = block->pays_descriptor;

	if (give_back->kept) {
		give_back->done(give_back->userdata);
		free(give_back);
		return;
	}
	block_free(broker->memory, block);
	pthread_mutex_lock(&broker->registry->lock);
	share_give(from.owner, place_share(from.place), size);
	share_give(from.owner, SHARE_DESCRIPTORS, described);
	reclaim_end(broker->reclaim, from);
	pthread_mutex_unlock(&broker->registry->lock);
	if (give_back->done)
		give_back->done(give_back->userdata);
	free(give_back);
	reclaim_retry(broker->reclaim, &broker->registry->lock, from);
}

static void give_back_insist(struct give_back *give_back, const struct wire_reply *reply)
{
	struct broker *broker = give_back->broker;
	_cleanup_text_ struct text reason = TEXT_INIT;

	text_printf(&reason, "could not unmap memory");
	text_add_call(&reason, reply->call, reply->result);
	pthread_mutex_lock(&broker->registry->lock);
	checkpoint_begin(broker, give_back->asked, give_back->asked_epoch,
			 text_string(&reason), EIO, NULL);
	pthread_mutex_unlock(&broker->registry->lock);
}

/*
 * The driver unmaps host memory only when the process runs no kernel. An owner's own
 * kernels may delay the release of the owner's freed memory, and of host memory mapped by
 * others. The worker has the whole limit once more after the last of them: it unmaps only
 * then.
 */
static bool give_back_may_take_longer(struct give_back *give_back)
{
	bool host = block_is_host(give_back->block) && !give_back->kept;
	bool excused = give_back->excused;

	give_back->excused =
		(!give_back->guest || host) &&
		owner_n_sent(give_back->broker->registry, give_back->asked->owner);
	return give_back->excused || excused;
}

static void give_back_passed(struct deadline *deadline)
{
	struct give_back *give_back = container_of(deadline, struct give_back, deadline);
	struct broker *broker = give_back->broker;
	struct worker *worker = give_back->asked;
	uint32_t epoch;

	if (give_back_may_take_longer(give_back)) {
		deadline_set(broker, deadline, broker->ops->give_back_ms,
			     give_back_passed);
		return;
	}
	/* Noted under this lock, before the request. */
	pthread_mutex_lock(&worker->lock);
	epoch = give_back->asked_epoch;
	pthread_mutex_unlock(&worker->lock);
	checkpoint_insist(broker, worker, epoch,
			  "was ended: it did not give memory back within %g s",
			  broker->ops->give_back_ms / 1000.0);
}

/* Time limit for an owner's worker to unmap, so that others don't wait for ever. */
static void give_back_limit(struct give_back *give_back, bool begins)
{
	struct broker *broker = give_back->broker;

	pthread_mutex_lock(&broker->registry->lock);
	give_back->excused = false;
	if (begins)
		deadline_set(broker, &give_back->deadline, broker->ops->give_back_ms,
			     give_back_passed);
	else
		deadline_clear(broker, &give_back->deadline);
	pthread_mutex_unlock(&broker->registry->lock);
}

/*
 * The worker has replied, or has ended with all its mappings. A worker that fails to
 * unmap is ended; the next process is not told of this block.
 */
static void give_back_unmapped(struct request *request, const struct wire_reply *reply,
			       bool lost)
{
	struct give_back *give_back = container_of(request, struct give_back, request);

	if (give_back->asked->owner)
		give_back_limit(give_back, false);
	if (reply->error && !lost)
		give_back_insist(give_back, reply);
	give_back_next(give_back);
}

static bool give_back_ask(struct give_back *give_back, struct worker *worker, bool guest)
{
	struct block *block = give_back->block;
	bool asked;

	give_back->request = (struct request){
		.record = {
			.op = block_is_host(block) ? WIRE_UNMAP_HOST : WIRE_UNMAP,
			.device = block_device(block),
			.address = block->address,
			.length = block->size,
		},
		.fd = -1,
		.done = give_back_unmapped,
	};
	give_back->asked = worker;
	if (worker->owner)
		give_back_limit(give_back, true);
	asked = worker_unmap(worker, block, guest, &give_back->request,
			     &give_back->asked_epoch);
	if (!asked && worker->owner)
		give_back_limit(give_back, false);
	return asked;
}

static void give_back_next(struct give_back *give_back)
{
	for (int i = 0; i < 2; i++) {
		struct worker *worker = take_ptr(give_back->workers[i]);

		if (worker && give_back_ask(give_back, worker, false))
			return;
	}
	while (!give_back->kept &&
	       (give_back->guest = block_next_guest(give_back->broker->memory,
						    give_back->block, give_back->guest)))
		if (give_back_ask(give_back, (struct worker *)give_back->guest, true))
			return;
	/* The driver may take long, and the kernel too for gigabytes. */
	if (give_back->kept || (block_is_host(give_back->block) &&
				give_back->block->size <= RELEASED_AT_ONCE))
		give_back_run(&give_back->task);
	else
		workqueue_add(give_back->broker->workqueue, give_back->whose,
			      &give_back->task);
}

void block_give_back(struct broker *broker, struct owner *owner, struct block *block,
		     void (*done)(void *userdata), void *userdata)
{
	struct give_back *give_back = calloc(1, sizeof(*give_back));

	/* Out of memory: the broker keeps the block until its end, and counts it. */
	if (!give_back) {
		__atomic_add_fetch(&broker->reclaim->n_kept, 1, __ATOMIC_RELAXED);
		if (done)
			done(userdata);
		return;
	}
	give_back->task.run = give_back_run;
	give_back->task.length = task_length_of_call(block->size);
	give_back->broker = broker;
	give_back->block = block;
	give_back->workers[0] = &broker->processes->mover;
	give_back->done = done;
	give_back->userdata = userdata;
	/* Not queued behind the owner's allocations: others may wait for this memory. */
	give_back->whose = (uint64_t)owner->uid | RELEASES;

	pthread_mutex_lock(&broker->registry->lock);
	give_back->workers[1] = owner->worker;
	reclaim_begin(broker->reclaim,
		      (struct reclaim_from){ block->place, block->payer });
	pthread_mutex_unlock(&broker->registry->lock);
	give_back_next(give_back);
}

void cell_give_back(struct broker *broker, struct owner *owner, struct block *block,
		    uint32_t cell)
{
	block = cell_put(owner->pool, block, cell);
	if (block)
		block_give_back(broker, owner, block, NULL, NULL);
}

void block_withdraw(struct broker *broker, struct block *block, struct worker *worker,
		    void (*done)(void *userdata), void *userdata)
{
	struct give_back *give_back = calloc(1, sizeof(*give_back));

	/* Out of memory: the block stays mapped there until it is freed. */
	if (!give_back) {
		done(userdata);
		return;
	}
	give_back->task.run = give_back_run;
	give_back->broker = broker;
	give_back->block = block;
	give_back->kept = true;
	give_back->guest = worker;
	give_back->done = done;
	give_back->userdata = userdata;
	if (!give_back_ask(give_back, worker, true))
		give_back_next(give_back);
}

/* ---- allocations ---- */

/* Others wait so long for memory that the owner's worker is to free. */
#define PROMPT_MS 1000

struct release {
	struct op op;
	struct allocation *allocation;
	bool counted; /* as being reclaimed; registry.lock */
	struct held_piece held;
	struct deadline slow; /* for the worker's answer */
};

static void release_block_done(void *userdata)
{
	struct op *op = userdata;

	op_done(op, 0);
}

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

void release_count(struct op *op)
{
	struct release *release = container_of(op, struct release, op);
	struct reclaim_from from = allocation_from(release->allocation);

	if (release->counted)
		return;
	release_uncount(release);
	if (op->work.held_by != HOLDER_NONE) {
		release->held.from = from;
		release->held.size = release->allocation->size;
		release->held.holder = op->work.held_by;
		reclaim_hold(op->broker->reclaim, &release->held);
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

	pthread_mutex_lock(&broker->registry->lock);
	parked = lease_park_release(allocation);
	leased = parked && allocation->leases;
	postponed = leased && release_uncount(release);
	if (!leased)
		release_count(op);
	pthread_mutex_unlock(&broker->registry->lock);
	if (postponed)
		reclaim_retry(broker->reclaim, &broker->registry->lock,
			      allocation_from(allocation));
	return parked;
}

/* A retry of requests that wait for memory which comes no more. */
struct retry {
	struct task task;
	struct broker *broker;
	struct reclaim_from from;
};

static void retry_run(struct task *task)
{
	struct retry *retry = container_of(task, struct retry, task);

	reclaim_retry(retry->broker->reclaim, &retry->broker->registry->lock,
		      retry->from);
	free(retry);
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
	struct retry *retry = calloc(1, sizeof(*retry));

	(void)release_uncount(release);
	release->held.from = from;
	release->held.size = release->allocation->size;
	release->held.holder = holder_of(from.owner->uid);
	reclaim_hold(broker->reclaim, &release->held);
	/* Without memory those who wait have their own time limits. */
	if (!retry)
		return;
	*retry = (struct retry){ { .run = retry_run }, broker, from };
	workqueue_add(broker->workqueue, from.owner->uid, &retry->task);
}

static void release_ask(struct release *release)
{
	struct op *op = &release->op;

	pthread_mutex_lock(&op->broker->registry->lock);
	deadline_set(op->broker, &release->slow, PROMPT_MS, release_is_slow);
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
	if (allocation->former_block)
		cell_give_back(op->broker, allocation->owner,
			       take_ptr(allocation->former_block),
			       allocation->former_cell);
	if (block && block->slab)
		block = cell_put(allocation->owner->pool, block, allocation->cell);
	if (block) {
		block_give_back(op->broker, allocation->owner, block, release_block_done,
				op);
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
	reclaim_retry(broker->reclaim, &broker->registry->lock, from);
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

	journal_event_by(broker->journal, by, "free allocations/%s id=%llu size=%llu",
			 allocation_name(allocation).text,
			 (unsigned long long)allocation->id,
			 (unsigned long long)allocation->size);
	registry_note_freed(broker->registry, allocation);
	readahead_free(broker, allocation->readahead, ready);
	records_begin(broker->registry->records);
	lifetime_leave(allocation);
	if (allocation->tensors)
		tensors_set(broker, allocation, NULL);
	allocation_withdraw(broker->registry, allocation);
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
	if (r == 0 && !allocation->leases)
		release_count(op);
	/* Out of memory: the bytes stay allocated and counted until the end. */
	if (r < 0)
		op_free(op);
	op_push_all(ready, more);
}

/* Guests still use the memory, or have work queued that will. */
static void release_passed(struct deadline *deadline)
{
	struct op *op = container_of(deadline, struct op, deadline);
	struct allocation *allocation = container_of(op, struct release, op)->allocation;
	struct op *ready = NULL;

	if (allocation->all_uses->work == &op->work)
		return;
	/* Out of memory: the next time. */
	(void)guests_turn_away(allocation, &ready);
	guests_end_before(op, NULL);
	op_start_later(ready);
	deadline_set(op->broker, deadline, op->broker->ops->give_back_ms, release_passed);
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
