/* SPDX-License-Identifier: MIT */
/*
 * Copies between allocations.
 *
 * If one worker reaches both allocations, its GPU copies and no byte touches the host:
 * the mover for durable memory; an owner's worker for memory in it and for the owner's
 * durable memory, mapped there when needed. Otherwise the bytes go through the staging
 * areas of two workers, piece by piece. This is so for workers of two owners, and for
 * a worker and another owner's durable memory, which must not be mapped there.
 */
#include "memops/copy.h"
#include "memops/fill.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/def.h"
#include "base/refusal.h"
#include "memops/permissions.h"
#include "memops/shut_off.h"
#include "model/allocation.h"
#include "model/order.h"
#include "model/registry.h"
#include "op/op.h"
#include "op/turn.h"
#include "process/processes.h"

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
 * Either worker may be stopped by its user for as long as the user likes. So a copy holds
 * a slot only while the worker of that slot reads or writes a piece, and keeps the piece
 * in the broker's memory meanwhile, of which each user has some room (op/turn.h).
 */
struct bounce {
	struct op op;		   /* with the worker and slot of the current side */
	struct worker *workers[2]; /* by use: target, source */
	uint8_t *bytes;		   /* of the piece */
	bool writes;		   /* the piece has been read and is being written */
	uint64_t done;		   /* bytes */
	uint64_t piece;
};

enum { BOUNCE_TARGET, BOUNCE_SOURCE };

/* Gives up the slot, and a turn at the mover: the other worker may take as it likes. */
static void bounce_release(struct op *op)
{
	int slot = op->staged.slot;
	struct op *ready = NULL;

	op->staged.slot = -1;
	pthread_mutex_lock(&op->broker->registry->lock);
	turn_give(op, &ready);
	pthread_mutex_unlock(&op->broker->registry->lock);
	op_slot_release(op->worker, slot);
	op_start(ready);
}

static void bounce_leave(struct op *op)
{
	struct bounce *bounce = container_of(op, struct bounce, op);
	struct op *ready = NULL;

	bounce_release(op);
	free(bounce->bytes);
	pthread_mutex_lock(&op->broker->registry->lock);
	room_give(op, &ready);
	pthread_mutex_unlock(&op->broker->registry->lock);
	op_start(ready);
}

static uint64_t bounce_length(const struct bounce *bounce)
{
	return MIN((uint64_t)WIRE_TRANSFER_MAX,
		   bounce->op.work.uses[0].length - bounce->done);
}

/* The worker may be ended meanwhile (shut_off.h). */
static void bounce_turn_to(struct bounce *bounce, int side)
{
	pthread_mutex_lock(&bounce->op.broker->registry->lock);
	bounce->op.worker = bounce->workers[side];
	pthread_mutex_unlock(&bounce->op.broker->registry->lock);
}

static uint8_t *bounce_payload(const struct op *op)
{
	return staging_payload(&op->worker->staging, (unsigned int)op->staged.slot);
}

static void bounce_ask(struct bounce *bounce, int side)
{
	struct op *op = &bounce->op;
	const struct use *use = &op->work.uses[side];

	/* The other side's memory is never mapped in this worker. */
	op->only_use = side;
	op->request.record = (struct wire_request){
		.op = side == BOUNCE_SOURCE ? WIRE_READ : WIRE_WRITE,
		.device = use->allocation->device,
		/* Where the memory was: op_request() notices when it has moved. */
		.address = use->address + use->offset + bounce->done,
		.length = bounce->piece,
		.offset = staging_offset((unsigned int)op->staged.slot),
	};
	op_request(op);
}

/* Returns: OP_PARKED: runs again when there is room; OP_OVER, with a refusal. */
static enum begun bounce_may_run(struct op *op, struct refusal *refusal)
{
	enum begun begun = OP_RUN;

	pthread_mutex_lock(&op->broker->registry->lock);
	if (op->shut_off) {
		(void)guest_refuse_next_piece(op, refusal);
		begun = OP_OVER;
	} else if (!room_take(op)) {
		begun = OP_PARKED;
	}
	pthread_mutex_unlock(&op->broker->registry->lock);
	return begun;
}

/* Runs again after a wait for room, and after each wait for a slot. */
static void bounce_run(struct op *op)
{
	struct bounce *bounce = container_of(op, struct bounce, op);
	int side = bounce->writes ? BOUNCE_TARGET : BOUNCE_SOURCE;
	struct refusal refusal;
	enum begun begun = bounce_may_run(op, &refusal);

	if (begun == OP_OVER)
		op_fail(op, refusal.error, "%s", refusal.sentence);
	if (begun != OP_RUN)
		return;
	if (!bounce->bytes)
		bounce->bytes = malloc(bounce_length(bounce));
	if (!bounce->bytes) {
		op_fail(op, ENOMEM, "the broker lacks memory for a piece of the copy");
		return;
	}
	if (op->staged.slot < 0)
		bounce_turn_to(bounce, side);
	if (!op_slot_get(op))
		return;
	if (bounce->writes)
		memcpy(bounce_payload(op), bounce->bytes, bounce->piece);
	else
		bounce->piece = bounce_length(bounce);
	bounce_ask(bounce, side);
}

static void bounce_answered(struct op *op, const struct wire_reply *reply)
{
	struct bounce *bounce = container_of(op, struct bounce, op);

	(void)reply;
	op->n_asked = 0;
	if (bounce->writes)
		bounce->done += bounce->piece;
	else
		memcpy(bounce->bytes, bounce_payload(op), bounce->piece);
	bounce->writes = !bounce->writes;
	bounce_release(op);
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
	.repeatable = true, /* the request for a piece */
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
		if (!bounce->workers[0] || !bounce->workers[1])
			return op_free(op);
	}
	op->finish = finish;
	work_use(&op->work, target, target_offset, length, true);
	work_use(&op->work, source, source_offset, length, false);
	allocation_used(source);
	return op;
}
