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
	uint64_t charged;    /* bytes charged to the owner while there is no new block */
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

/* ---- the share of descriptors ---- */

int descriptor_take(struct allocation *allocation, struct refusal *refusal)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	int r;

	if (allocation->has_descriptor)
		return 0;
	r = share_take(allocation->owner, SHARE_DESCRIPTORS, 1);
	if (r < 0) {
		share_explain(allocation->owner, &text);
		return refuse(refusal, -r, "%s", text_string(&text));
	}
	allocation->has_descriptor = true;
	allocation_save(allocation);
	return 0;
}

void descriptor_settle(struct allocation *allocation)
{
	if (!allocation->has_descriptor || allocation->rare->move ||
	    allocation->mode & 066 || !allocation_shares_block(allocation))
		return;
	share_give(allocation->owner, SHARE_DESCRIPTORS, 1);
	allocation->has_descriptor = false;
	allocation_save(allocation);
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
	move->block->payer = allocation->owner;
	move->charged = 0;
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

/* Charges the owner for the new block. Returns: 0; -EDQUOT. */
static int move_charge(struct broker *broker, const struct allocation *allocation,
		       uint64_t *ret_charged, struct refusal *refusal)
{
	uint32_t place = allocation_place(allocation);
	uint64_t bytes = block_size_for(broker->memory, place, allocation->size);
	_cleanup_text_ struct text text = TEXT_INIT;
	int r = share_take(allocation->owner, place_share(place), bytes);

	if (r < 0) {
		share_explain(allocation->owner, &text);
		return refuse(refusal, -r,
			      "allocation %s shares a block with others and can't move "
			      "to one of its own: %s",
			      allocation_name(allocation).text, text_string(&text));
	}
	*ret_charged = bytes;
	return 0;
}

static void move_uncharge(const struct allocation *allocation, uint64_t bytes)
{
	share_undo(allocation->owner, place_share(allocation_place(allocation)), bytes);
}

static void move_settle(struct op *op)
{
	struct move *move = container_of(op, struct move, op);
	struct allocation *allocation = op->work.uses[0].allocation;
	struct block *old = allocation->block;

	allocation->rare->move = NULL;
	allocation->rare->move_error = op->error;
	move_uncharge(allocation, move->charged);
	if (op->error) {
		descriptor_settle(allocation);
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
		      const struct caller *caller, uint64_t charged, struct op **ready)
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
	container_of(op, struct move, op)->charged = charged;
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
	uint64_t charged;
	int r;

	if (!allocation_shares_block(allocation))
		return 0;
	use->places = true;
	if (allocation->rare->move)
		return 0;
	r = descriptor_take(allocation, refusal);
	if (r < 0)
		return r;
	r = move_charge(broker, allocation, &charged, refusal);
	if (r < 0) {
		descriptor_settle(allocation);
		return r;
	}
	if (move_begin(broker, allocation, caller, charged, ready) < 0) {
		move_uncharge(allocation, charged);
		descriptor_settle(allocation);
		return refuse(refusal, ENOMEM, "no memory in the broker");
	}
	return 0;
}
