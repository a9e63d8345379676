/* SPDX-License-Identifier: MIT */
#include "memops/withdrawal.h"

#include <errno.h>
#include <utlist.h>

#include "base/refusal.h"
#include "memops/give_back.h"
#include "memops/permissions.h"
#include "memops/release.h"
#include "memops/shut_off.h"
#include "memory/block.h"
#include "model/allocation.h"
#include "model/save.h"
#include "op/op.h"
#include "process/checkpoint.h"
#include "process/processes.h"

struct withdrawal {
	struct op op;
	struct worker *worker; /* of another owner */
	uint32_t epoch; /* of the last process that may have the memory; 0: not known yet
			 */
	bool running;
	struct work *barred; /* ops that begin after the withdrawal */
	struct work **barred_end;
	const struct use *wanted;	/* withdrawal_add() */
	struct withdrawal *prev, *next; /* of the allocation */
};

/*
 * The newest withdrawal from a worker: only the oldest can be running. NULL: none.
 */
static struct withdrawal *withdrawal_find(const struct allocation *allocation,
					  const struct worker *worker)
{
	struct withdrawal *withdrawal;

	DL_FOREACH (allocation->rare->withdrawals, withdrawal) {
		if (withdrawal->worker == worker)
			return withdrawal;
	}
	return NULL;
}

/*
 * Barred ops begin in the order in which they came. The first op maps the memory as this
 * op needs, and later ops do not take the mapping away at once.
 */
static void withdrawal_bar(struct withdrawal *withdrawal, struct op *op)
{
	op->work.next_ready = NULL;
	*withdrawal->barred_end = &op->work;
	withdrawal->barred_end = &op->work.next_ready;
}

static void withdrawal_done(void *userdata)
{
	struct op *op = userdata;

	op_done(op, 0);
}

/*
 * An op that needs another mapping may wait for kernels of the op's owner, as long as
 * this owner may use the memory.
 */
static bool withdrawal_may_take_longer(void *userdata)
{
	const struct op *op = userdata;
	const struct use *use = container_of(op, const struct withdrawal, op)->wanted;

	return use && !release_is_limited(use->allocation) &&
	       guest_may_use(container_of(use->work, const struct op, work), use);
}

/*
 * Bars an op until the end of a withdrawal that has begun to take the memory away from
 * the worker. Returns: whether there is such a withdrawal.
 */
static bool withdrawal_bar_until_lost(struct op *op, const struct worker *worker)
{
	struct withdrawal *running;

	DL_FOREACH (op->work.uses[0].allocation->rare->withdrawals, running) {
		if (running->running && running->worker == worker)
			break;
	}
	if (running)
		withdrawal_bar(running, op);
	return running;
}

static uint32_t mapped_epoch(const struct withdrawal *withdrawal)
{
	return worker_mapped_epoch(withdrawal->worker,
				   withdrawal->op.work.uses[0].allocation->block, true);
}

static enum begun withdrawal_begin(struct op *op)
{
	struct withdrawal *withdrawal = container_of(op, struct withdrawal, op);

	if (withdrawal_bar_until_lost(op, withdrawal->worker))
		return OP_PARKED;
	/* Ops that the order lets go first may have used another process meanwhile. */
	if (!withdrawal->epoch)
		withdrawal->epoch = mapped_epoch(withdrawal);
	/* A kernel given up may have the address without a use in the order. */
	if (checkpoint_park_until_end(withdrawal->worker, withdrawal->epoch, &op->work))
		return OP_PARKED;
	withdrawal->running = true;
	return OP_RUN;
}

static void withdrawal_run(struct op *op)
{
	struct withdrawal *withdrawal = container_of(op, struct withdrawal, op);

	block_withdraw(op->broker, op->work.uses[0].allocation->block, withdrawal->worker,
		       (struct give_back_tell){
			       .may_take_longer = withdrawal_may_take_longer,
			       .done = withdrawal_done,
			       .userdata = op,
		       });
}

static void withdrawal_settle(struct op *op)
{
	struct allocation *allocation = op->work.uses[0].allocation;

	DL_DELETE(allocation->rare->withdrawals, container_of(op, struct withdrawal, op));
	if (!allocation->rare->withdrawals)
		allocation_save(allocation);
}

static void withdrawal_finish(struct op *op)
{
	op_resume(container_of(op, struct withdrawal, op)->barred);
}

static const struct op_class withdrawal_class = {
	.what = "change",
	.begin = withdrawal_begin,
	.run = withdrawal_run,
	.settle = withdrawal_settle,
	.on_lost = true,
	.quiet = true,
};

/* The time limit has passed. */
static void withdrawal_passed(struct deadline *deadline)
{
	struct op *op = container_of(deadline, struct op, deadline);
	const struct withdrawal *withdrawal = container_of(op, struct withdrawal, op);
	const unsigned int patience_ms = op->broker->ops->give_back_ms / 2;

	guests_end_before(op, withdrawal->worker);
	/* A process that saves memory of the guest's own has time to do so. */
	(void)checkpoint_hurry_stuck(withdrawal->worker,
				     withdrawal->epoch ?: mapped_epoch(withdrawal),
				     patience_ms);
	/* A kernel may have been on the way to the worker: checks again later. */
	deadline_set(op->broker, deadline, patience_ms, withdrawal_passed);
}

bool withdrawal_is_queued(const struct allocation *allocation,
			  const struct worker *worker, bool seals)
{
	const struct withdrawal *withdrawal = withdrawal_find(allocation, worker);

	return withdrawal && !withdrawal->running &&
	       (withdrawal->op.work.uses[0].write || !seals);
}

int withdrawals_seal(struct broker *broker, struct allocation *allocation,
		     struct op **ready)
{
	struct withdrawal *withdrawal;
	int r = 0;

	DL_FOREACH (allocation->rare->withdrawals, withdrawal) {
		if (r == 0 && !withdrawal->op.work.uses[0].write &&
		    !withdrawal_is_queued(allocation, withdrawal->worker, true))
			r = withdrawal_add(broker, allocation, withdrawal->worker, NULL,
					   true, ready);
	}
	return r;
}

int withdrawal_add(struct broker *broker, struct allocation *allocation,
		   struct worker *worker, const struct use *wanted, bool seals,
		   struct op **ready)
{
	struct withdrawal *withdrawal;
	struct op *op, *more = NULL;
	int r;

	if (allocation_make_rare(allocation) < 0)
		return -ENOMEM;
	op = op_new(sizeof(struct withdrawal), &withdrawal_class, broker,
		    allocation->owner);
	if (!op)
		return -ENOMEM;
	withdrawal = container_of(op, struct withdrawal, op);
	withdrawal->worker = worker;
	withdrawal->wanted = wanted;
	withdrawal->barred_end = &withdrawal->barred;
	op->finish = withdrawal_finish;
	op->work.takes_from = worker;
	work_use(&op->work, allocation, 0, allocation->size, seals);
	op->work.uses[0].places = true;
	/* Not charged: one for a worker is queued at most, and one more for a seal. */
	r = op_add_unlimited(op, &more);
	if (r < 0) {
		op_free(op);
	} else {
		DL_PREPEND(allocation->rare->withdrawals, withdrawal);
		allocation_save(allocation);
		deadline_set(broker, &op->deadline, broker->ops->give_back_ms,
			     withdrawal_passed);
	}
	op_push_all(ready, more);
	return r;
}

/* ---- ops behind a withdrawal ---- */

/*
 * The withdrawal that the op has to wait for: of memory that the op uses, from the op's
 * worker. NULL: none. An op whose process had ended begins again. A withdrawal added in
 * between waits for the op, so the op does not wait for this withdrawal.
 */
static struct withdrawal *guest_bar(const struct op *op)
{
	for (unsigned int i = 0; i < op->work.n_uses; i++) {
		struct withdrawal *withdrawal =
			withdrawal_find(op->work.uses[i].allocation, op->worker);

		if (withdrawal && !work_is_before(&op->work, &withdrawal->op.work))
			return withdrawal;
	}
	return NULL;
}

bool guest_is_barred(struct op *op)
{
	struct withdrawal *withdrawal = guest_bar(op);

	if (withdrawal)
		withdrawal_bar(withdrawal, op);
	return withdrawal;
}

bool writer_is_barred(struct op *op)
{
	struct withdrawal *withdrawal;

	DL_FOREACH (op->work.uses[0].allocation->rare->withdrawals, withdrawal) {
		if (!withdrawal_may_take_longer(&withdrawal->op))
			break;
	}
	if (withdrawal)
		withdrawal_bar(withdrawal, op);
	return withdrawal;
}

/* Whether a mapping for one of the uses, by the same worker, won't do for the other. */
static bool uses_map_otherwise(const struct use *a, const struct use *b)
{
	return (a->write && !b->guest_writes) || (b->write && !a->guest_writes);
}

/*
 * Whether the op's worker has the memory for reading only and the op writes, or for
 * writing from before a seal and the op may not. A worker without a mapping may be about
 * to make a mapping for another op, which has begun.
 */
static bool guest_maps_otherwise(const struct op *op, const struct use *use)
{
	const struct allocation *allocation = use->allocation;
	const struct use *other;

	if (worker_is_guest(op->worker, allocation->block))
		return worker_is_reader(op->worker, allocation->block)
			       ? use->write
			       : allocation->sealed && !use->guest_writes;
	DL_FOREACH2(allocation->all_uses, other, next_of_all)
	{
		if (work_has_begun(other->work) && uses_map_otherwise(use, other) &&
		    container_of(other->work, struct op, work)->worker == op->worker)
			return true;
	}
	return false;
}

int guest_map_anew(struct op *op, struct refusal *refusal)
{
	const struct use *use = op->work.uses, *end = use + op->work.n_uses;
	struct op *ready = NULL;
	int r;

	/* A withdrawal looks at the use, so the op has to wait for that one. */
	if (guest_bar(op))
		return 0;
	while (use < end &&
	       (op->owner == use->allocation->owner || !guest_maps_otherwise(op, use)))
		use++;
	if (use == end)
		return 0;
	r = withdrawal_add(op->broker, use->allocation, op->worker, use, false, &ready);
	op_start_later(ready);
	return r < 0 ? refuse(refusal, ENOMEM, "no memory in the broker") : 0;
}
