/* SPDX-License-Identifier: MIT */
#include "memops/shut_off.h"

#include <errno.h>

#include <utlist.h>

#include "base/refusal.h"
#include "memops/permissions.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/stream.h"
#include "op/op.h"
#include "op/turn.h"
#include "process/checkpoint.h"
#include "process/processes.h"

/*
 * Whether the op moves bytes through a worker of another user, who may have stopped that
 * worker.
 */
static bool needs_worker_of_another(const struct op *op, const struct owner *owner)
{
	for (unsigned int i = 0; op->class->pieces && i < op->work.n_uses; i++) {
		const struct allocation *allocation = op->work.uses[i].allocation;

		if (!kind_is_durable(allocation->kind) && allocation->owner != owner)
			return true;
	}
	return false;
}

/*
 * Whether the op may not use the allocation any more. Freed memory may be used by ops of
 * the owner, who can end these ops, and of root.
 */
static bool use_is_shut_off(const struct op *op, const struct use *use)
{
	const struct allocation *allocation = use->allocation;

	if (!op->class->may_use)
		return false;
	if (allocation->state == ALLOCATION_FREED)
		return (op->payer != allocation->owner && op->payer->uid != 0) ||
		       needs_worker_of_another(op, allocation->owner);
	return !op->class->may_use(op, use);
}

/* Returns: a negative errno. */
static int use_refuse(const struct op *op, const struct use *use, bool began,
		      struct refusal *refusal)
{
	const struct allocation *allocation = use->allocation;
	const struct full_name name = allocation_name(allocation);
	const struct kernel_class *kernel = op->class->kernel;
	const char *when = began ? "during" : "before", *end = began ? "" : " began";
	const char *article = kernel ? "kernel" : "the";
	const char *what = kernel ? kernel->name(op) : op->class->what;

	if (allocation->state == ALLOCATION_FREED)
		return refuse(refusal, ESTALE,
			      "allocation %s of uid %u was freed %s %s %s%s", name.text,
			      allocation->owner->uid, when, article, what, end);
	if (guest_comes_after_seal(op, use))
		return refuse(refusal, EPERM,
			      "allocation %s of uid %u was sealed before %s %s began",
			      name.text, allocation->owner->uid, article, what);
	return refuse(refusal, EACCES,
		      "allocation %s of uid %u was shut off from uid %u, with mode %04o, "
		      "%s %s %s%s",
		      name.text, allocation->owner->uid, op->payer->uid, allocation->mode,
		      when, article, what, end);
}

/* ---- waiting ops ---- */

/* Whether the op waits in the order, or for room in its stream. */
static bool op_waits(const struct op *op)
{
	const struct work *work = &op->work;

	if (op->refused || !work->may_leave || work_has_begun(work) || op->takes_zeros)
		return false;
	return work->n_before || (work->ended && work->n_ahead) ||
	       (work->stream && work->stream->held == work);
}

static int guest_turn_away(struct op *op, const struct use *use, struct op **ready,
			   struct detaching *all)
{
	struct stream *stream = op->work.stream;
	struct refusal refusal;

	(void)use_refuse(op, use, false, &refusal);
	if (op_turn_away(op, ready, &refusal, all) < 0)
		return -ENOMEM;
	if (stream && stream->held == &op->work && op->work.detached)
		stream->held = NULL;
	return 0;
}

/* ---- ops that have begun ---- */

static void guest_end(const struct op *op, const struct use *use, uint32_t epoch)
{
	const struct kernel_class *kernel = op->class->kernel;
	bool freed = use->allocation->state == ALLOCATION_FREED;

	checkpoint_insist(
		op->broker, op->worker, epoch,
		"was ended: %s %s still used allocation %s %g s after that was %s",
		kernel ? "kernel" : "a", kernel ? kernel->name(op) : op->class->what,
		allocation_name(use->allocation).text,
		(freed && op->shut_off ? 2 : 1) * op->broker->ops->give_back_ms / 1000.0,
		freed			  ? "freed"
		: use->allocation->sealed ? "sealed"
					  : "shut off");
}

/* The time limit has passed: the worker has not answered, or has no buffer left. */
static void piece_passed(struct deadline *deadline)
{
	struct op *op = container_of(deadline, struct op, deadline);
	const struct owner *owner = op->worker ? op->worker->owner : NULL;

	for (unsigned int i = 0; owner && i < op->work.n_uses; i++) {
		const struct use *use = &op->work.uses[i];

		if (owner != use->allocation->owner && use_is_shut_off(op, use))
			guest_end(op, use, worker_epoch(op->worker));
	}
	deadline_set(op->broker, deadline, op->broker->ops->give_back_ms, piece_passed);
}

static void pieces_end(struct op *op, struct op **ready)
{
	if (op->shut_off)
		return;
	op->shut_off = true;
	room_wait_no_more(op, ready);
	deadline_set(op->broker, &op->deadline, op->broker->ops->give_back_ms,
		     piece_passed);
}

int guest_refuse_next_piece(const struct op *op, struct refusal *refusal)
{
	unsigned int i = 0;

	/* The last one, if the memory was opened again. */
	while (i + 1 < op->work.n_uses && !use_is_shut_off(op, &op->work.uses[i]))
		i++;
	return use_refuse(op, &op->work.uses[i], true, refusal);
}

void guests_end_before(const struct op *op, const struct worker *worker)
{
	const struct use *use;

	DL_FOREACH2(op->work.uses[0].allocation->all_uses, use, next_of_all)
	{
		const struct op *before = container_of(use->work, struct op, work);
		const struct work *work = use->work;

		if (before == op)
			break;
		if ((worker && before->worker != worker) || !work_has_begun(work) ||
		    !use_is_shut_off(before, use))
			continue;
		/* A kernel still being sent was checked before; its worker hangs. */
		guest_end(before, use,
			  work->sent || work->within ? before->asked_epoch
						     : worker_epoch(before->worker));
	}
}

/* The uses of an op lie side by side. NULL: there is no use. */
static const struct use *first_use_of_op(const struct allocation *allocation,
					 const struct use *use)
{
	while (use && use != allocation->all_uses && use->prev_of_all->work == use->work)
		use = use->prev_of_all;
	return use;
}

/*
 * From the newest on: an op with followers would leave its predecessors to all of them,
 * and these would be turned away next.
 */
int guests_turn_away(struct allocation *allocation, struct op **ready)
{
	const struct use *oldest = allocation->all_uses;
	const struct use *use = oldest ? oldest->prev_of_all : NULL, *before;
	struct detaching all = { .pairs_left = OP_PAIRS_MOST };
	int r = 0;

	for (; r == 0 && use; use = before) {
		struct op *op = container_of(use->work, struct op, work);

		use = first_use_of_op(allocation, use);
		before = use == oldest ? NULL : use->prev_of_all;
		if (!use_is_shut_off(op, use))
			continue;
		if (op_waits(op))
			r = guest_turn_away(op, use, ready, &all);
		else if (op->class->pieces)
			pieces_end(op, ready);
	}
	return r;
}
