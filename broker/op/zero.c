/* SPDX-License-Identifier: MIT */
#include "op/zero.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/workqueue.h"
#include "memory/block.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "model/shares.h"
#include "op/op.h"
#include "process/processes.h"

/* Host memory up to this size is zeroed at once, by the calling thread. */
#define ZEROED_AT_ONCE ((uint64_t)1 << 20)

struct zero {
	struct op op;
	struct task task;
};

static enum begun zero_begin(struct op *op)
{
	const struct use *use = &op->work.uses[0];

	/* Without a worker, the memory is on the host. */
	if (!op->worker)
		return OP_RUN;
	op->request.record = (struct wire_request){
		.op = WIRE_FILL,
		/* Zeros of a truncation move no pages: `cat f >data` begins with one. */
		.flags = use->allocation->managed ? WIRE_STAY : 0,
		.device = use->allocation->device,
		.address = use->allocation->address + use->offset,
		.length = use->length,
		.pattern_size = 1,
	};
	return OP_RUN;
}

static void zero_host(struct task *task)
{
	struct op *op = &container_of(task, struct zero, task)->op;
	const struct use *use = &op->work.uses[0];

	memset(block_bytes_at(use->allocation->block,
			      use->allocation->address + use->offset),
	       0, use->length);
	op_done(op, 0);
}

static void zero_run(struct op *op)
{
	struct zero *zero = container_of(op, struct zero, op);

	zero->task.run = zero_host;
	if (op->worker)
		op_submit(op);
	else if (op->work.uses[0].length <= ZEROED_AT_ONCE)
		zero_host(&zero->task);
	else
		workqueue_add(op->broker->workqueue, op->payer->uid, &zero->task);
}

/*
 * Unzeroed memory would show old data. Ops added behind the failed zeroing fail
 * (op_check_uses()); later ops try to zero the allocation again.
 */
static void zero_settle(struct op *op)
{
	const struct use *use = &op->work.uses[0];
	struct allocation *allocation = use->allocation;

	allocation->n_zeroed++;
	if (!op->error) {
		allocation_save(allocation);
		return;
	}
	if (allocation->zeroed || use->offset < allocation->zeros_from)
		allocation->zeros_from = use->offset;
	allocation->zeroed = false;
	allocation->zeroing_failed = allocation->n_zeroings;
	free(allocation->zeroing_failure);
	allocation->zeroing_failure = strdup(text_string(&op->sentence));
	allocation_save(allocation);
}

static const struct op_class zero_class = {
	.what = "zeroing",
	.begin = zero_begin,
	.run = zero_run,
	.settle = zero_settle,
	.repeatable = true,
};

struct op *op_zero_new(struct broker *broker, struct allocation *allocation,
		       uint64_t from)
{
	struct worker *worker = allocation_worker(broker, allocation);
	struct op *zero = worker ? op_new(sizeof(struct zero), &zero_class, broker,
					  allocation->owner)
				 : NULL;

	if (!zero)
		return NULL;
	if (!allocation->zeroed)
		from = MIN(from, allocation->zeros_from);
	zero->worker = allocation->kind == KIND_HOST ? NULL : worker;
	work_use(&zero->work, allocation, from, allocation->size - from, true);
	return zero;
}

int zero_add(struct op *zero, struct op **ret_ready)
{
	struct allocation *allocation = zero->work.uses[0].allocation;
	int r = order_add(&zero->work);

	if (r < 0)
		return r;
	if (allocation->n_zeroings == allocation->n_zeroed)
		allocation->zeroing_from = allocation->size;
	allocation->zeroing_from =
		MIN(allocation->zeroing_from, zero->work.uses[0].offset);
	allocation->zeroed = true;
	allocation->n_zeroings++;
	allocation_save(allocation);
	zero->broker->registry->n_busy++;
	op_chore(zero);
	if (zero->work.n_before == 0)
		op_push_ready(ret_ready, zero);
	return 0;
}

int zero_add_before(struct op *op, struct allocation *allocation, struct op **ret_ready)
{
	struct op *zero = op_zero_new(op->broker, allocation, allocation->size);
	int r = -ENOMEM;

	if (zero) {
		zero->payer = op->payer;
		r = zero_add(zero, ret_ready);
	}
	if (r < 0)
		op_free(zero);
	return r;
}
