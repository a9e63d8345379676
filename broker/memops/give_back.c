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
#include "process/user_lanes.h"

/* Host memory up to this size is released at once: 64 MiB take the kernel 9 ms, and the
 * thread may be the one that reads requests. */
#define RELEASED_AT_ONCE ((uint64_t)1 << 20)

/* A worker that may have the block mapped. */
struct asked {
	struct give_back *give_back;
	struct request request;
	struct worker *worker;
	bool guest; /* of another owner */
	uint32_t epoch;
	struct deadline deadline;
	bool excused; /* by kernels that ran at the last deadline; registry.lock */
	struct until_end
		until;	      /* of processes that were given up; registry.lock, like: */
	struct deadline look; /* at a guest's */
};

struct give_back {
	struct task task;
	struct broker *broker;
	struct block *block;
	struct held_piece held; /* a user's worker keeps the memory; registry.lock */
	uid_t uid;		/* the owner's; whose tasks wait for this one */
	bool kept;		/* only unmapped from one guest, not released */
	bool guest_pays;	/* registry.lock, like: */
	uid_t payer;		/* the former owner, who pays descriptors */
	struct give_back_tell tell;
	unsigned int n_open; /* workers without an answer, and 1 while they are asked */
	unsigned int n_asked;
	struct asked asked[];
};

/*
 * A guest pays no longer than the guest's worker has the memory. If programs still map
 * the memory, the former owner pays again.
 */
static void give_back_name_payer(const struct give_back *give_back)
{
	struct registry *registry = give_back->broker->registry;
	struct owner *payer;

	pthread_mutex_lock(&registry->lock);
	payer = give_back->guest_pays ? owner_make(registry, give_back->payer) : NULL;
	if (payer)
		give_back->block->payer = payer;
	pthread_mutex_unlock(&registry->lock);
}

static void give_back_run(struct task *task)
{
	struct give_back *give_back = container_of(task, struct give_back, task);
	struct broker *broker = give_back->broker;
	struct block *block = give_back->block;
	struct reclaim_from from = { block->place, block->payer };
	struct owner *payer;
	struct reclaimed reclaimed = reclaimed_of(from);
	uint64_t size = block->size;
	bool described = block->pays_descriptor, still_mapped;

	if (give_back->kept) {
		give_back->tell.done(give_back->tell.userdata);
		free(give_back);
		return;
	}
	give_back_name_payer(give_back);
	payer = block->payer;
	still_mapped = block_is_host(block) && still_mapped_add(broker, block);
	if (!still_mapped)
		block_free(broker->memory, block);
	pthread_mutex_lock(&broker->registry->lock);
	if (give_back->held.prev)
		reclaim_begin(broker->reclaim, from);
	reclaim_unhold(broker->reclaim, &give_back->held);
	share_give(from.owner, place_share(from.place), size);
	if (still_mapped) {
		share_restore(payer, place_share(from.place), size);
		reclaim_postpone(broker->reclaim, from);
	} else {
		share_give(payer, SHARE_DESCRIPTORS, described);
		reclaim_end(broker->reclaim, from);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	if (give_back->tell.done)
		give_back->tell.done(give_back->tell.userdata);
	free(give_back);
	reclaim_retry(broker->reclaim, broker->registry, reclaimed);
}

/* A retry of requests that wait for memory which comes no more, or has come. */
struct retry {
	struct task task;
	struct broker *broker;
	struct reclaimed reclaimed;
};

static void retry_run(struct task *task)
{
	struct retry *retry = container_of(task, struct retry, task);

	reclaim_retry(retry->broker->reclaim, retry->broker->registry, retry->reclaimed);
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
	*retry = (struct retry){ { .run = retry_run }, broker, reclaimed_of(from) };
	workqueue_add(broker->workqueue, from.owner->uid, &retry->task);
}

static void asked_insist(const struct asked *asked, const struct wire_reply *reply)
{
	struct broker *broker = asked->give_back->broker;
	_cleanup_text_ struct text reason = TEXT_INIT;

	text_printf(&reason, "could not unmap memory");
	text_add_call(&reason, reply->call, reply->result);
	pthread_mutex_lock(&broker->registry->lock);
	checkpoint_begin(broker, asked->worker, asked->epoch, text_string(&reason), EIO,
			 NULL);
	pthread_mutex_unlock(&broker->registry->lock);
}

/*
 * A guest whose kernels keep freed memory is charged from now on in the place of its
 * payer, whose requests try again. Returns: whether the guest's limit has room. Under
 * registry.lock.
 */
static bool give_back_charge_guest(struct give_back *give_back, struct owner *guest)
{
	struct reclaim *reclaim = give_back->broker->reclaim;
	struct block *block = give_back->block;
	struct reclaim_from from = { block->place, block->payer };

	if (from.owner == guest)
		return true;
	if (share_take(guest, place_share(from.place), block->size) < 0)
		return false;
	share_give(from.owner, place_share(from.place), block->size);
	if (!give_back->guest_pays)
		give_back->payer = from.owner->uid;
	give_back->guest_pays = true;
	block->payer = guest;
	if (give_back->held.prev)
		reclaim_begin(reclaim, from);
	reclaim_unhold(reclaim, &give_back->held);
	reclaim_end(reclaim, from);
	reclaim_hold(reclaim, &give_back->held,
		     (struct reclaim_from){ from.place, guest }, block->size,
		     holder_of(guest->uid));
	if (give_back->tell.held)
		give_back->tell.held(give_back->tell.userdata);
	reclaim_retry_later(give_back->broker, from);
	return true;
}

/* ---- processes that were given up ---- */

static void give_back_answered(struct give_back *give_back);

static void old_process_ended(struct until_end *until)
{
	struct asked *asked = container_of(until, struct asked, until);
	struct broker *broker = asked->give_back->broker;

	pthread_mutex_lock(&broker->registry->lock);
	deadline_clear(broker, &asked->look);
	pthread_mutex_unlock(&broker->registry->lock);
	give_back_answered(asked->give_back);
}

/* A guest may save memory of the guest's own, and pays meanwhile if there is room. */
static void look_at_old_process(struct deadline *deadline)
{
	struct asked *asked = container_of(deadline, struct asked, look);
	struct give_back *give_back = asked->give_back;
	struct broker *broker = give_back->broker;
	const unsigned int patience_ms = broker->ops->give_back_ms / 2;

	if (!checkpoint_hurry_stuck(asked->worker, asked->until.epoch, patience_ms))
		return;
	(void)give_back_charge_guest(give_back, asked->worker->owner);
	deadline_set(broker, deadline, patience_ms, look_at_old_process);
}

/*
 * A process of the worker that was given up, with this epoch or an earlier one, may have
 * the block mapped until its end, and the owner is charged until then. The caller answers
 * for this wait. Under registry.lock. Returns: whether the wait begins.
 */
static bool old_process_lives(struct asked *asked, uint32_t epoch)
{
	struct broker *broker = asked->give_back->broker;
	bool begins;

	if (!asked->worker->owner)
		return false;
	asked->until.ended = old_process_ended;
	begins = checkpoint_wait_until_end(asked->worker, epoch, &asked->until);
	/* A withdrawal has a time limit of its own. */
	if (asked->until.waits && asked->guest && !asked->give_back->kept)
		deadline_set(broker, &asked->look, broker->ops->give_back_ms / 2,
			     look_at_old_process);
	return begins;
}

/*
 * epoch: of the process that had the block before the worker was asked. Called
 * afterwards: a process that was given up in between could not be asked.
 */
static void wait_for_old_process(struct asked *asked, uint32_t epoch)
{
	struct give_back *give_back = asked->give_back;
	pthread_mutex_t *lock = &give_back->broker->registry->lock;
	bool waits;

	__atomic_add_fetch(&give_back->n_open, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(lock);
	waits = old_process_lives(asked, epoch);
	pthread_mutex_unlock(lock);
	if (!waits)
		give_back_answered(give_back);
}

/* ---- time limits ---- */

/*
 * The driver unmaps host memory only when the process runs no kernel. An owner's own
 * kernels may delay the release of the owner's freed memory, and of host memory of
 * others as long as the owner can pay for it. The worker has the whole limit once more
 * after the last of them: it unmaps only then.
 */
static bool asked_may_take_longer(struct asked *asked)
{
	struct give_back *give_back = asked->give_back;
	struct owner *owner = asked->worker->owner;
	bool excused = asked->excused, may = !asked->guest;

	if (give_back->kept)
		may = give_back->tell.may_take_longer(give_back->tell.userdata);
	else if (asked->guest && owner->n_sent && block_is_host(give_back->block))
		may = give_back_charge_guest(give_back, owner);
	asked->excused = may && owner->n_sent;
	/* Not for a guest who has lost the right meanwhile. */
	return asked->excused || (excused && (may || !give_back->kept));
}

static void asked_passed(struct deadline *deadline)
{
	struct asked *asked = container_of(deadline, struct asked, deadline);
	struct broker *broker = asked->give_back->broker;
	struct worker *worker = asked->worker;
	uint32_t epoch;

	if (asked_may_take_longer(asked)) {
		deadline_set(broker, deadline, broker->ops->give_back_ms, asked_passed);
		return;
	}
	/* Noted under this lock, before the request. */
	pthread_mutex_lock(&worker->lock);
	epoch = asked->epoch;
	pthread_mutex_unlock(&worker->lock);
	checkpoint_insist(broker, worker, epoch,
			  "was ended: it did not give memory back within %g s",
			  broker->ops->give_back_ms / 1000.0);
	if (old_process_lives(asked, epoch))
		__atomic_add_fetch(&asked->give_back->n_open, 1, __ATOMIC_RELAXED);
}

/* From now on the owner holds the memory, and nobody else waits for it. */
static void asked_is_slow(struct deadline *deadline)
{
	struct asked *asked = container_of(deadline, struct asked, deadline);
	struct give_back *give_back = asked->give_back;
	struct broker *broker = give_back->broker;
	const struct block *block = give_back->block;
	struct reclaim_from from = { block->place, block->payer };

	deadline_set(broker, deadline, broker->ops->give_back_ms - GIVE_BACK_PROMPT_MS,
		     asked_passed);
	if (give_back->held.prev)
		return;
	reclaim_postpone(broker->reclaim, from);
	reclaim_hold(broker->reclaim, &give_back->held, from, block->size,
		     holder_of(from.owner->uid));
	if (give_back->tell.held)
		give_back->tell.held(give_back->tell.userdata);
	reclaim_retry_later(broker, from);
}

/*
 * Whether others are to wait less long than the worker may take: for the worker of who
 * had the memory.
 */
static bool asked_keeps_own(const struct asked *asked)
{
	const struct give_back *give_back = asked->give_back;

	return !give_back->kept && asked->worker->owner == give_back->block->payer &&
	       give_back->broker->ops->give_back_ms > GIVE_BACK_PROMPT_MS;
}

/* Time limit for an owner's worker to unmap, so that others don't wait for ever. */
static void asked_limit(struct asked *asked, bool begins)
{
	struct broker *broker = asked->give_back->broker;

	if (!asked->worker->owner)
		return;
	pthread_mutex_lock(&broker->registry->lock);
	asked->excused = false;
	if (begins && asked_keeps_own(asked))
		deadline_set(broker, &asked->deadline, GIVE_BACK_PROMPT_MS,
			     asked_is_slow);
	else if (begins)
		deadline_set(broker, &asked->deadline, broker->ops->give_back_ms,
			     asked_passed);
	else
		deadline_clear(broker, &asked->deadline);
	pthread_mutex_unlock(&broker->registry->lock);
}

/* Releases the block after the last answer. */
static void give_back_answered(struct give_back *give_back)
{
	const struct block *block = give_back->block;

	if (__atomic_sub_fetch(&give_back->n_open, 1, __ATOMIC_ACQ_REL))
		return;
	if (give_back->kept)
		give_back_run(&give_back->task);
	else if (block->given)
		user_lane_add(give_back->broker, LANE_FILES, give_back->uid,
			      &give_back->task);
	else if (block_is_host(block) && block->size <= RELEASED_AT_ONCE)
		give_back_run(&give_back->task);
	else /* The driver may take long, and the kernel too for gigabytes. */
		workqueue_add(give_back->broker->workqueue,
			      (uint64_t)give_back->uid | WORKQUEUE_RELEASES,
			      &give_back->task);
}

/*
 * The worker has replied, or has ended with all its mappings. A worker that fails to
 * unmap is ended; the next process is not told of this block.
 */
static void asked_answered(struct request *request, const struct wire_reply *reply,
			   bool lost)
{
	struct asked *asked = container_of(request, struct asked, request);

	asked_limit(asked, false);
	if (reply->error && !lost)
		asked_insist(asked, reply);
	give_back_answered(asked->give_back);
}

static void ask(struct asked *asked)
{
	struct give_back *give_back = asked->give_back;
	struct block *block = give_back->block;

	asked->request = (struct request){
		.record = {
			.op = block_is_host(block) ? WIRE_UNMAP_HOST : WIRE_UNMAP,
			.device = block_device(block),
			.address = block->address,
			.length = block->size,
		},
		.fd = -1,
		.done = asked_answered,
	};
	__atomic_add_fetch(&give_back->n_open, 1, __ATOMIC_RELAXED);
	asked_limit(asked, true);
	if (worker_unmap(asked->worker, block, asked->guest, &asked->request,
			 &asked->epoch))
		return;
	asked_limit(asked, false);
	give_back_answered(give_back);
}

static void give_back_begin(struct give_back *give_back)
{
	for (unsigned int i = 0; i < give_back->n_asked; i++) {
		struct asked *asked = &give_back->asked[i];
		uint32_t epoch = worker_mapped_epoch(asked->worker, give_back->block,
						     asked->guest);

		ask(asked);
		wait_for_old_process(asked, epoch);
	}
	give_back_answered(give_back);
}

static void ask_later(struct give_back *give_back, struct worker *worker, bool guest)
{
	struct asked *asked = &give_back->asked[give_back->n_asked];

	if (!worker)
		return;
	asked->give_back = give_back;
	asked->worker = worker;
	asked->guest = guest;
	give_back->n_asked++;
}

static struct give_back *give_back_new(struct broker *broker, struct block *block,
				       size_t n_most)
{
	struct give_back *give_back =
		calloc(1, sizeof(*give_back) + n_most * sizeof(give_back->asked[0]));

	if (!give_back)
		return NULL;
	give_back->task.run = give_back_run;
	give_back->broker = broker;
	give_back->block = block;
	give_back->n_open = 1;
	return give_back;
}

/* Of all workers that may have the block mapped. NULL: no memory. */
static struct give_back *give_back_of_all(struct broker *broker, struct owner *owner,
					  struct block *block)
{
	_cleanup_free_ const void **guests = NULL;
	int n = block_guests(broker->memory, block, &guests);
	struct give_back *give_back =
		n < 0 ? NULL : give_back_new(broker, block, (size_t)n + 2);

	if (!give_back)
		return NULL;
	ask_later(give_back, &broker->processes->mover, false);
	pthread_mutex_lock(&broker->registry->lock);
	ask_later(give_back, owner->worker, false);
	pthread_mutex_unlock(&broker->registry->lock);
	for (int i = 0; i < n; i++)
		ask_later(give_back, (struct worker *)guests[i], true);
	return give_back;
}

void block_give_back(struct broker *broker, struct owner *owner, struct block *block,
		     struct give_back_tell tell)
{
	struct give_back *give_back = give_back_of_all(broker, owner, block);

	/* Out of memory: the broker keeps the block until its end, and counts it. */
	if (!give_back) {
		__atomic_add_fetch(&broker->reclaim->n_kept, 1, __ATOMIC_RELAXED);
		if (tell.done)
			tell.done(tell.userdata);
		return;
	}
	give_back->task.length = task_length_of_call(block->size);
	give_back->tell = tell;
	give_back->uid = owner->uid;

	pthread_mutex_lock(&broker->registry->lock);
	reclaim_begin(broker->reclaim,
		      (struct reclaim_from){ block->place, block->payer });
	pthread_mutex_unlock(&broker->registry->lock);
	give_back_begin(give_back);
}

void cell_give_back(struct broker *broker, struct owner *owner, struct block *block,
		    uint32_t cell)
{
	block = cell_put(owner->pool, block, cell);
	if (block)
		block_give_back(broker, owner, block, GIVE_BACK_UNTOLD);
}

void block_withdraw(struct broker *broker, struct block *block, struct worker *worker,
		    struct give_back_tell tell)
{
	struct give_back *give_back = give_back_new(broker, block, 1);

	/* Out of memory: the block stays mapped there until it is freed. */
	if (!give_back) {
		tell.done(tell.userdata);
		return;
	}
	give_back->kept = true;
	give_back->tell = tell;
	ask_later(give_back, worker, true);
	give_back_begin(give_back);
}
