/* SPDX-License-Identifier: MIT */
/*
 * Moves out of shared blocks.
 *
 * Memory that another owner may use never shares a physical block with memory closed to
 * that owner. So before another owner's worker or a lease first gets an allocation of a
 * shared block, the allocation moves to a block of its own, at a new address. The GPU
 * copies the bytes of device memory.
 *
 * The move is an op ahead of the use that needs it, and both uses place (model/order.h):
 * a move waits for writers, and readers go on beside it. A reader that has begun reads
 * from the old cell, which then stays taken until the allocation is freed.
 */
#include "memops/move.h"

#include <errno.h>
#include <string.h>

#include <utlist.h>

#include "base/descriptor.h"
#include "base/refusal.h"
#include "memops/allocate.h"
#include "memops/give_back.h"
#include "memory/block.h"
#include "model/access.h"
#include "model/save.h"
#include "model/shares.h"
#include "op/op.h"
#include "process/processes.h"

struct move {
	struct op op;
	struct task task;
	struct block *block; /* the new block; after the move the old one, or NULL */
	uint32_t cell;	     /* of the old block */
};

bool allocation_shares_block(const struct allocation *allocation)
{
	return allocation->block && allocation->block->slab;
}

int refuse_shared(struct refusal *refusal, const struct allocation *allocation)
{
	int error = allocation->rare->move_error ? allocation->rare->move_error : EIO;

	return refuse(
		refusal, error,
		"allocation %s shares a block with others and could not be moved to "
		"one of its own: %s",
		allocation_name(allocation).text,
		error == EMFILE ? DESCRIPTORS_GONE : strerror(error));
}

/* ---- the charge ---- */

static bool is_charged(const struct allocation *allocation)
{
	return allocation->has_descriptor && allocation_shares_block(allocation);
}

static enum share share_of(const struct allocation *allocation)
{
	return place_share(allocation_place(allocation));
}

static uint64_t bytes_of(const struct broker *broker, const struct allocation *allocation)
{
	return block_size_for(broker->memory, allocation_place(allocation),
			      allocation->size);
}

/* Returns: 0; -EMFILE with a refusal. */
static int descriptor_take(const struct allocation *allocation, struct refusal *refusal)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	int r = share_take(allocation->owner, SHARE_DESCRIPTORS, 1);

	if (r == 0)
		return 0;
	share_explain(allocation->owner, &text);
	return refuse(refusal, -r, "%s", text_string(&text));
}

int move_charge(struct broker *broker, struct allocation *allocation,
		struct refusal *refusal)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	struct owner *owner = allocation->owner;
	int r;

	if (!allocation_shares_block(allocation) || allocation->has_descriptor)
		return 0;
	r = descriptor_take(allocation, refusal);
	if (r < 0)
		return r;
	r = share_take(owner, share_of(allocation), bytes_of(broker, allocation));
	if (r < 0) {
		share_undo(owner, SHARE_DESCRIPTORS, 1);
		share_explain(owner, &text);
		return refuse(refusal, -r,
			      "allocation %s shares a block with others and can't have "
			      "one of its own: %s",
			      allocation_name(allocation).text, text_string(&text));
	}
	allocation->has_descriptor = true;
	allocation_save(allocation);
	return 0;
}

/* give: share_give(), or share_undo() for a block that could not be made. */
static void charge_settle(struct broker *broker, struct allocation *allocation,
			  void (*give)(struct owner *owner, enum share share, uint64_t n))
{
	bool freed = allocation->state == ALLOCATION_FREED;

	if (!is_charged(allocation) || allocation->rare->move ||
	    (allocation->mode & 066 && !freed))
		return;
	give(allocation->owner, share_of(allocation), bytes_of(broker, allocation));
	share_give(allocation->owner, SHARE_DESCRIPTORS, 1);
	allocation->has_descriptor = false;
	allocation_save(allocation);
}

void move_charge_settle(struct broker *broker, struct allocation *allocation)
{
	charge_settle(broker, allocation, share_give);
}

void move_charge_restore(struct broker *broker, struct allocation *allocation)
{
	if (!is_charged(allocation))
		return;
	share_restore(allocation->owner, share_of(allocation),
		      bytes_of(broker, allocation));
}

/* ---- the move ---- */

/* Makes the block, then starts the copy. In the work queue, because the driver may take
 * long. */
static void move_make(struct task *task)
{
	struct move *move = container_of(task, struct move, task);
	struct op *op = &move->op;
	const struct allocation *allocation = op->work.uses[0].allocation;
	int r = block_new(&move->block, op->broker->memory, allocation_place(allocation),
			  allocation->size, GUARD_NONE, NULL);

	if (r < 0) {
		op_fail(op, -r, "no memory for it to stand alone");
		return;
	}
	if (allocation->kind == KIND_HOST) {
		memcpy(move->block->memory,
		       block_bytes_at(allocation->block, allocation->address),
		       allocation->size);
		op_done(op, 0);
		return;
	}
	op->request.record = (struct wire_request){
		.op = WIRE_COPY,
		.device = allocation->device,
		.source_device = allocation->device,
		.address = move->block->address,
		.source = allocation->address,
		.length = allocation->size,
	};
	op->extra_block = move->block;
	op_request(op);
}

static void move_run(struct op *op)
{
	struct move *move = container_of(op, struct move, op);

	move->task.run = move_make;
	workqueue_add(op->broker->workqueue, op->uid, &move->task);
}

/* Whether an op that has begun may still use the old cell. */
static bool move_has_readers(const struct move *move)
{
	const struct use *use;

	DL_FOREACH2(move->op.work.uses[0].allocation->all_uses, use, next_of_all)
	{
		if (use->work != &move->op.work && use->work->n_before == 0)
			return true;
	}
	return false;
}

static void move_settle(struct op *op)
{
	struct move *move = container_of(op, struct move, op);
	struct allocation *allocation = op->work.uses[0].allocation;
	struct block *old = allocation->block;

	allocation->rare->move = NULL;
	allocation->rare->move_error = op->error;
	if (move->block)
		move->block->payer = allocation->owner;
	if (op->error) {
		/* A new block is charged for until it has been given back. */
		if (move->block)
			share_restore(allocation->owner, share_of(allocation),
				      move->block->size);
		charge_settle(op->broker, allocation,
			      move->block ? share_give : share_undo);
		return;
	}
	move->cell = allocation->cell;
	allocation->block = move->block;
	allocation->address = move->block->address;
	allocation->pointer_generation++;
	allocation->cell = 0;
	allocation->block_record = move->block->record;
	allocation->block_generation = move->block->record_generation;
	allocation_save(allocation);
	move->block = old;
	if (!move_has_readers(move))
		return;
	allocation->rare->former_block = take_ptr(move->block);
	allocation->rare->former_cell = move->cell;
}

static void move_finish(struct op *op)
{
	struct move *move = container_of(op, struct move, op);

	if (!move->block)
		return;
	if (op->error)
		block_give_back(op->broker, op->owner, move->block, GIVE_BACK_UNTOLD);
	else
		cell_give_back(op->broker, op->owner, move->block, move->cell);
}

static const struct op_class move_class = {
	.what = "move",
	.run = move_run,
	.settle = move_settle,
	.repeatable = true,
	.quiet = true,
};

/* Returns: 0; -ENOMEM. */
static int move_begin(struct broker *broker, struct allocation *allocation,
		      const struct caller *caller, struct op **ready)
{
	struct op *op, *more = NULL;
	int r;

	if (allocation_make_rare(allocation) < 0)
		return -ENOMEM;
	op = op_new(sizeof(struct move), &move_class, broker, allocation->owner);
	if (!op)
		return -ENOMEM;
	op->uid = caller->uid;
	op->pid = caller->pid;
	op->finish = move_finish;
	op->worker = &broker->processes->mover;
	op_charge(op, caller);
	work_use(&op->work, allocation, 0, allocation->size, false);
	op->work.uses[0].places = true;
	/* Not charged: an allocation has at most one move. */
	r = op_add_unlimited(op, &more);
	if (r < 0)
		op_free(op);
	else
		allocation->rare->move = container_of(op, struct move, op);
	op_push_all(ready, more);
	return r;
}

int move_out(struct broker *broker, struct use *use, const struct caller *caller,
	     struct op **ready, struct refusal *refusal)
{
	struct allocation *allocation = use->allocation;
	int r;

	if (!allocation_shares_block(allocation))
		return 0;
	use->places = true;
	if (allocation->rare->move)
		return 0;
	r = move_charge(broker, allocation, refusal);
	if (r < 0)
		return r;
	if (move_begin(broker, allocation, caller, ready) < 0) {
		charge_settle(broker, allocation, share_undo);
		return refuse(refusal, ENOMEM, "no memory in the broker");
	}
	return 0;
}
