/* SPDX-License-Identifier: MIT */
/*
 * Copies between allocations.
 *
 * If one worker reaches both allocations, its GPU copies and no byte touches the host:
 * the mover for durable memory; an owner's worker for memory in it and for the owner's
 * durable memory, mapped there when needed. Otherwise the bytes go through the staging
 * areas of two workers, one slot at a time. This is so for workers of two owners, and for
 * a worker and another owner's durable memory, which must not be mapped there.
 */
#include "memops/copy.h"
#include "memops/fill.h"

#include <string.h>

#include "base/def.h"
#include "base/refusal.h"
#include "memops/permissions.h"
#include "memops/shut_off.h"
#include "model/allocation.h"
#include "model/order.h"
#include "model/registry.h"
#include "op/op.h"
#include "process/processes.h"
#include "process/staging_slot.h"

/* ---- by one worker ---- */

/*
 * Host and managed memory belongs to no device: the device of the other end does the
 * copy.
 */
static void copy_devices(const struct allocation *target, const struct allocation *source,
			 struct wire_request *request)
{
	request->device = kind_has_device(target->kind) || source->kind == KIND_HOST
				  ? target->device
				  : source->device;
	request->source_device =
		kind_has_device(source->kind) ? source->device : request->device;
}

static enum begun copy_begin(struct op *op)
{
	const struct use *target = &op->work.uses[0], *source = &op->work.uses[1];

	op->request.record = (struct wire_request){
		.op = WIRE_COPY,
		.address = target->allocation->address + target->offset,
		.source = source->allocation->address + source->offset,
		.length = target->length,
	};
	copy_devices(target->allocation, source->allocation, &op->request.record);
	return OP_RUN;
}

static const struct op_class copy_class = {
	.what = "copy",
	.moves = MOVED_COPY,
	.begin = copy_begin,
	.settle = data_settle,
	.may_use = guest_may_ask,
	.repeatable = true,
	.overwrites = true,
};

/* ---- through the host ---- */

/*
 * A slot of an owner's worker is held from the first piece to the last. A slot of the
 * mover, which serves all users, is held only while the mover reads or writes a piece,
 * never during a request to the other worker.
 */
struct bounce {
	struct op op;		   /* with the worker and slot of the current side */
	struct worker *workers[2]; /* by use: target, source */
	int slots[2];
	bool writes;   /* the piece has been read and is being written */
	bool copied;   /* the piece is in the target's slot */
	uint64_t done; /* bytes */
	uint64_t piece;
};

enum { BOUNCE_TARGET, BOUNCE_SOURCE };

static void bounce_release(struct bounce *bounce, int side)
{
	int slot = bounce->slots[side];

	bounce->slots[side] = -1;
	op_slot_release(bounce->workers[side], slot);
}

static void bounce_release_movers(struct bounce *bounce)
{
	for (int side = 0; side < 2; side++) {
		if (bounce->workers[side] == &bounce->op.broker->processes->mover)
			bounce_release(bounce, side);
	}
}

static void bounce_leave(struct op *op)
{
	struct bounce *bounce = container_of(op, struct bounce, op);

	/* A slot that was obtained but not used. */
	op_slot_release(op->worker, op->staged.slot);
	bounce_release(bounce, BOUNCE_SOURCE);
	bounce_release(bounce, BOUNCE_TARGET);
}

/* The worker may be ended meanwhile (shut_off.h). */
static void bounce_turn_to(struct bounce *bounce, int side)
{
	pthread_mutex_lock(&bounce->op.broker->registry->lock);
	bounce->op.worker = bounce->workers[side];
	pthread_mutex_unlock(&bounce->op.broker->registry->lock);
}

/* Returns: false when no slot is free; the op is run again with a slot. */
static bool bounce_hold(struct bounce *bounce, int side)
{
	struct op *op = &bounce->op;

	if (bounce->slots[side] >= 0)
		return true;
	if (op->staged.slot < 0) {
		bounce_turn_to(bounce, side);
		if (!staging_slot_get(op->worker, &op->staged))
			return false;
	}
	bounce->slots[side] = op->staged.slot;
	op->staged.slot = -1;
	return true;
}

/*
 * All copies take the slots of two owners' workers in the same order, to avoid a
 * deadlock.
 */
static bool bounce_hold_owners(struct bounce *bounce)
{
	int first = bounce->workers[BOUNCE_SOURCE] < bounce->workers[BOUNCE_TARGET];

	for (int i = 0; i < 2; i++) {
		int side = i ? !first : first;

		if (bounce->workers[side] != &bounce->op.broker->processes->mover &&
		    !bounce_hold(bounce, side))
			return false;
	}
	return true;
}

static uint8_t *bounce_payload(const struct bounce *bounce, int side)
{
	return staging_payload(&bounce->workers[side]->staging,
			       (unsigned int)bounce->slots[side]);
}

static void bounce_copy(struct bounce *bounce)
{
	if (!bounce->copied)
		memcpy(bounce_payload(bounce, BOUNCE_TARGET),
		       bounce_payload(bounce, BOUNCE_SOURCE), bounce->piece);
	bounce->copied = true;
}

static void bounce_ask(struct bounce *bounce, int side)
{
	struct op *op = &bounce->op;
	const struct use *use = &op->work.uses[side];

	bounce_turn_to(bounce, side);
	/* The other side's memory is never mapped in this worker. */
	op->only_use = side;
	op->request.record = (struct wire_request){
		.op = side == BOUNCE_SOURCE ? WIRE_READ : WIRE_WRITE,
		.device = use->allocation->device,
		/* Where the memory was: op_request() notices when it has moved. */
		.address = use->address + use->offset + bounce->done,
		.length = bounce->piece,
		.offset = staging_offset((unsigned int)bounce->slots[side]),
	};
	op_request(op);
}

static bool bounce_is_shut_off(struct op *op, struct refusal *refusal)
{
	bool shut_off;

	pthread_mutex_lock(&op->broker->registry->lock);
	shut_off = op->shut_off;
	if (shut_off)
		(void)guest_refuse_next_piece(op, refusal);
	pthread_mutex_unlock(&op->broker->registry->lock);
	return shut_off;
}

/* Run again for each slot that was not free. */
static void bounce_run(struct op *op)
{
	struct bounce *bounce = container_of(op, struct bounce, op);
	int side = bounce->writes ? BOUNCE_TARGET : BOUNCE_SOURCE;
	struct refusal refusal;

	if (bounce_is_shut_off(op, &refusal)) {
		op_fail(op, refusal.error, "%s", refusal.sentence);
		return;
	}
	if (!bounce_hold_owners(bounce) || !bounce_hold(bounce, side))
		return;
	if (bounce->writes)
		bounce_copy(bounce);
	else
		bounce->piece = MIN((uint64_t)WIRE_TRANSFER_MAX,
				    op->work.uses[0].length - bounce->done);
	bounce_ask(bounce, side);
}

static void bounce_answered(struct op *op, const struct wire_reply *reply)
{
	struct bounce *bounce = container_of(op, struct bounce, op);

	(void)reply;
	op->n_asked = 0;
	if (!bounce->writes && bounce->slots[BOUNCE_TARGET] >= 0)
		bounce_copy(bounce);
	if (bounce->writes) {
		bounce->done += bounce->piece;
		bounce->copied = false;
	}
	bounce->writes = !bounce->writes;
	bounce_release_movers(bounce);
	if (bounce->done == op->work.uses[0].length)
		op_done(op, 0);
	else
		bounce_run(op);
}

static const struct op_class bounce_class = {
	.what = "copy",
	.moves = MOVED_COPY,
	.run = bounce_run,
	.answered = bounce_answered,
	.settle = data_settle,
	.may_use = guest_may_ask,
	.leave = bounce_leave,
	.pieces = true,
};

/* ---- the choice between the two ---- */

/* The worker that may map both allocations; NULL: none. */
static struct worker *copy_worker(struct broker *broker, const struct allocation *a,
				  const struct allocation *b)
{
	if (kind_is_durable(a->kind) && kind_is_durable(b->kind))
		return &broker->processes->mover;
	if (a->owner != b->owner)
		return NULL;
	return worker_of(broker, a->owner);
}

struct op *copy_op_new(struct broker *broker, struct owner *owner,
		       struct allocation *target, uint64_t target_offset,
		       struct allocation *source, uint64_t source_offset, uint64_t length,
		       void (*finish)(struct op *op))
{
	struct worker *worker = copy_worker(broker, target, source);
	struct bounce *bounce;
	struct op *op;

	op = worker ? op_new(sizeof(*op), &copy_class, broker, owner)
		    : op_new(sizeof(*bounce), &bounce_class, broker, owner);
	if (!op)
		return NULL;
	op->worker = worker;
	if (!worker) {
		bounce = container_of(op, struct bounce, op);
		bounce->workers[BOUNCE_TARGET] = allocation_worker(broker, target);
		bounce->workers[BOUNCE_SOURCE] = allocation_worker(broker, source);
		bounce->slots[BOUNCE_TARGET] = bounce->slots[BOUNCE_SOURCE] = -1;
		if (!bounce->workers[0] || !bounce->workers[1])
			return op_free(op);
	}
	op->finish = finish;
	work_use(&op->work, target, target_offset, length, true);
	work_use(&op->work, source, source_offset, length, false);
	allocation_used(source);
	return op;
}
