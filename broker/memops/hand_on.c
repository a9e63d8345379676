/* SPDX-License-Identifier: MIT */
#include "memops/hand_on.h"

#include <errno.h>

#include "base/refusal.h"
#include "base/text.h"
#include "memops/move.h"
#include "memory/block.h"
#include "model/allocation.h"
#include "model/origin.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "process/broker.h"
#include "process/worker.h"
#include "record/records.h"

int hand_on_check(const struct allocation *allocation, struct refusal *refusal)
{
	const struct full_name name = allocation_name(allocation);
	unsigned int uid = allocation->owner->uid;

	if (!kind_is_durable(allocation->kind))
		return refuse(
			refusal, EOPNOTSUPP,
			"allocation %s of kind %s lives in the worker of uid %u and "
			"can't go to another owner; copy it to one of kind=device",
			name.text, kind_name((enum allocation_kind)allocation->kind),
			uid);
	if (allocation->n_works)
		return refuse(refusal, EBUSY,
			      "allocation %s has work under way, and can go to another "
			      "owner when that is done",
			      name.text);
	if (allocation_shares_block(allocation))
		return refuse(refusal, EBUSY,
			      "allocation %s shares a block of memory with others of uid "
			      "%u: read allocations/%s/lease, which moves it to a block "
			      "of its own, and try again",
			      name.text, uid, name.text);
	return 0;
}

/* ---- what an allocation costs its owner ---- */

struct cost {
	enum share share;
	uint64_t n;
};

#define N_COSTS 4

static void costs_of(const struct allocation *allocation, struct cost costs[N_COSTS])
{
	costs[0] = (struct cost){ SHARE_ALLOCATIONS, 1 };
	costs[1] = (struct cost){ SHARE_RECORDS, 1 };
	costs[2] = (struct cost){ SHARE_DESCRIPTORS, allocation->has_descriptor };
	costs[3] = (struct cost){ place_share(allocation->block->place),
				  allocation->block->size };
}

/* Refuses what the owner could not be charged for. Returns: r. */
static int refuse_cost(struct owner *owner, int r, struct refusal *refusal)
{
	_cleanup_text_ struct text why = TEXT_INIT;

	if (!share_is_refusal(r))
		return refuse(refusal, -r, "no memory in the broker");
	share_explain(owner, &why);
	return refuse(refusal, -r, "%s", text_string(&why));
}

/* Charges the owner for the allocation. Returns: 0; negative with a refusal. */
static int costs_take(const struct cost costs[N_COSTS], struct owner *owner,
		      struct refusal *refusal)
{
	int r;

	for (unsigned int i = 0; i < N_COSTS; i++) {
		r = share_take(owner, costs[i].share, costs[i].n);
		if (r == 0)
			continue;
		refuse_cost(owner, r, refusal);
		while (i-- > 0)
			share_undo(owner, costs[i].share, costs[i].n);
		return r;
	}
	return 0;
}

static void costs_give(const struct cost costs[N_COSTS], struct owner *owner)
{
	for (unsigned int i = 0; i < N_COSTS; i++)
		share_give(owner, costs[i].share, costs[i].n);
}

/* ---- who has it mapped ---- */

/* The owner's worker becomes a guest of the block. Returns: 0; -ENOMEM. */
static int worker_to_guest(struct broker *broker, struct block *block,
			   struct worker *worker)
{
	struct guest *guest = NULL;
	int r = 0;

	if (!worker)
		return 0;
	pthread_mutex_lock(&worker->lock);
	if (block->owner_epoch)
		guest = block_guest(broker->memory, block, worker, &worker->n_guests);
	if (guest) {
		guest->epoch = block->owner_epoch;
		guest->writable = true;
		block->owner_epoch = 0;
	} else if (block->owner_epoch) {
		r = -ENOMEM;
	}
	pthread_mutex_unlock(&worker->lock);
	return r;
}

/* Undoes worker_to_guest(). */
static void worker_from_guest(struct broker *broker, struct block *block,
			      struct worker *worker)
{
	struct guest *guest;

	if (!worker)
		return;
	pthread_mutex_lock(&worker->lock);
	guest = block_guest(broker->memory, block, worker, NULL);
	if (guest) {
		block->owner_epoch = guest->epoch;
		guest->epoch = 0;
	}
	pthread_mutex_unlock(&worker->lock);
}

/* ---- both ---- */

/* Returns: 0; -EDQUOT, -ENOMEM, and nothing is changed. */
static int owner_set(struct broker *broker, struct allocation *allocation,
		     struct owner *to)
{
	int r;

	records_begin(broker->registry->records);
	r = origin_move(allocation, to);
	if (r == 0) {
		allocation_give(broker->registry, allocation, to);
		allocation->block->payer = to;
	}
	records_end(broker->registry->records);
	return r;
}

int hand_on(struct broker *broker, struct allocation *allocation, struct owner *to,
	    struct refusal *refusal)
{
	struct owner *from = allocation->owner;
	struct cost costs[N_COSTS];
	int r;

	costs_of(allocation, costs);
	r = costs_take(costs, to, refusal);
	if (r < 0)
		return r;
	r = worker_to_guest(broker, allocation->block, from->worker);
	if (r == 0) {
		r = owner_set(broker, allocation, to);
		if (r < 0)
			worker_from_guest(broker, allocation->block, from->worker);
	}
	if (r < 0) {
		refuse_cost(to, r, refusal);
		costs_give(costs, to);
		return r;
	}
	costs_give(costs, from);
	return 0;
}

void hand_back(struct broker *broker, struct allocation *allocation, struct owner *to)
{
	struct owner *from = allocation->owner;
	struct cost costs[N_COSTS];
	struct refusal refusal;

	costs_of(allocation, costs);
	costs_give(costs, from);
	/* What was given a moment ago is still there. */
	(void)costs_take(costs, to, &refusal);
	worker_from_guest(broker, allocation->block, to->worker);
	records_begin(broker->registry->records);
	if (owner_set(broker, allocation, to) < 0) {
		/* Without memory for the cgroup of before: it is unknown from here on. */
		origin_leave(allocation);
		(void)owner_set(broker, allocation, to);
	}
	records_end(broker->registry->records);
}
