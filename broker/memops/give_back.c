/* SPDX-License-Identifier: MIT */
#include "memops/give_back.h"

#include <errno.h>

#include "base/workqueue.h"
#include "memops/still_mapped.h"
#include "memory/block.h"
#include "memory/slab.h"
#include "model/order.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "op/op.h"
#include "process/checkpoint.h"
#include "process/processes.h"

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
	bool excused; /* by kernels that ran at the last deadline; registry.lock */
	struct held_piece held; /* a guest keeps the memory, and pays; registry.lock */
	uint64_t whose;		/* owner of the task in the work queue */
	bool kept;		/* only unmapped from one guest, not released */
	struct give_back_tell tell;
};

static void give_back_next(struct give_back *give_back);

static void give_back_run(struct task *task)
{
	struct give_back *give_back = container_of(task, struct give_back, task);
	struct broker *broker = give_back->broker;
	struct block *block = give_back->block;
	struct reclaim_from from = { block->place, block->payer };
	uint64_t size = block->size;
	bool described = block->pays_descriptor, still_mapped;

	if (give_back->kept) {
		give_back->tell.done(give_back->tell.userdata);
		free(give_back);
		return;
	}
	still_mapped = block_is_host(block) && still_mapped_add(broker, block);
	if (!still_mapped)
		block_free(broker->memory, block);
	pthread_mutex_lock(&broker->registry->lock);
	if (give_back->held.prev)
		reclaim_begin(broker->reclaim, from);
	reclaim_unhold(broker->reclaim, &give_back->held);
	if (still_mapped) {
		reclaim_postpone(broker->reclaim, from);
	} else {
		share_give(from.owner, place_share(from.place), size);
		share_give(from.owner, SHARE_DESCRIPTORS, described);
		reclaim_end(broker->reclaim, from);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	if (give_back->tell.done)
		give_back->tell.done(give_back->tell.userdata);
	free(give_back);
	reclaim_retry(broker->reclaim, &broker->registry->lock, from);
}

/* A retry of requests that wait for memory which comes no more, or has come. */
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
 * Has them retry, by the work queue. Without memory those who wait have their own time
 * limits. Under registry.lock.
 */
void reclaim_retry_later(struct broker *broker, struct reclaim_from from)
{
	struct retry *retry = calloc(1, sizeof(*retry));

	if (!retry)
		return;
	*retry = (struct retry){ { .run = retry_run }, broker, from };
	workqueue_add(broker->workqueue, from.owner->uid, &retry->task);
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
 * A guest whose kernels keep freed memory is charged from now on in the place of its
 * payer, whose requests try again. Returns: whether the guest's limit has room. Under
 * registry.lock.
 */
static bool give_back_charge_guest(struct give_back *give_back)
{
	struct reclaim *reclaim = give_back->broker->reclaim;
	struct owner *guest = give_back->asked->owner;
	struct block *block = give_back->block;
	struct reclaim_from from = { block->place, block->payer };

	if (from.owner == guest)
		return true;
	if (share_take(guest, place_share(from.place), block->size) < 0)
		return false;
	share_give(from.owner, place_share(from.place), block->size);
	block->payer = guest;
	if (give_back->held.prev)
		reclaim_begin(reclaim, from);
	reclaim_unhold(reclaim, &give_back->held);
	reclaim_end(reclaim, from);
	give_back->held.from = (struct reclaim_from){ from.place, guest };
	give_back->held.size = block->size;
	give_back->held.holder = holder_of(guest->uid);
	reclaim_hold(reclaim, &give_back->held);
	if (give_back->tell.held)
		give_back->tell.held(give_back->tell.userdata);
	reclaim_retry_later(give_back->broker, from);
	return true;
}

/*
 * The driver unmaps host memory only when the process runs no kernel. An owner's own
 * kernels may delay the release of the owner's freed memory, and of host memory of
 * others as long as the owner can pay for it. The worker has the whole limit once more
 * after the last of them: it unmaps only then.
 */
static bool give_back_may_take_longer(struct give_back *give_back)
{
	bool host = block_is_host(give_back->block) && !give_back->kept;
	bool excused = give_back->excused;

	give_back->excused = (!give_back->guest || host) &&
			     give_back->asked->owner->n_sent &&
			     (!give_back->guest || give_back_charge_guest(give_back));
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
		     struct give_back_tell tell)
{
	struct give_back *give_back = calloc(1, sizeof(*give_back));

	/* Out of memory: the broker keeps the block until its end, and counts it. */
	if (!give_back) {
		__atomic_add_fetch(&broker->reclaim->n_kept, 1, __ATOMIC_RELAXED);
		if (tell.done)
			tell.done(tell.userdata);
		return;
	}
	give_back->task.run = give_back_run;
	give_back->task.length = task_length_of_call(block->size);
	give_back->broker = broker;
	give_back->block = block;
	give_back->workers[0] = &broker->processes->mover;
	give_back->tell = tell;
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
		block_give_back(broker, owner, block, GIVE_BACK_UNTOLD);
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
	give_back->tell = (struct give_back_tell){ .done = done, .userdata = userdata };
	if (!give_back_ask(give_back, worker, true))
		give_back_next(give_back);
}
