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
#include "model/stream.h"
#include "op/op.h"
#include "process/checkpoint.h"
#include "process/processes.h"

/* Host memory up to this size is zeroed at once, by the calling thread. */
#define ZEROED_AT_ONCE ((uint64_t)1 << 20)

/* Of an allocation, at a time: the end of one looks at all uses for the others. */
#define TAKERS_MAX 16

struct zero {
	struct op op;
	struct task task;
};

static void zero_ask(struct op *op, uint64_t offset, uint64_t length)
{
	const struct allocation *allocation = op->work.uses[0].allocation;

	op->request.record = (struct wire_request){
		.op = WIRE_FILL,
		/* Zeros of a truncation move no pages: `cat f >data` begins with one. */
		.flags = allocation->managed ? WIRE_STAY : 0,
		.device = allocation->device,
		.address = allocation->address + offset,
		.length = length,
		.pattern_size = 1,
	};
}

static enum begun zero_begin(struct op *op)
{
	const struct use *use = &op->work.uses[0];

	/* Without a worker, the memory is on the host. */
	if (op->worker)
		zero_ask(op, use->offset, use->length);
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
	zero->task.length = task_length_of_filling(op->work.uses[0].length);
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
static void zeros_owe(const struct op *op, uint64_t from)
{
	struct allocation *allocation = op->work.uses[0].allocation;

	allocation->zeros_from = MIN(allocation->zeros_from, from);
	/* Ops that are added from now on are not behind it. */
	allocation->zeroing_failed = allocation->n_zeroings++;
	if (allocation_make_rare(allocation) < 0)
		return;
	free(allocation->rare->zeroing_failure);
	allocation->rare->zeroing_failure = strdup(text_string(&op->sentence));
}

/* The op stands for the zeros from there on, until zeros_end(). */
static void zeros_begin(struct op *op, uint64_t from)
{
	struct allocation *allocation = op->work.uses[0].allocation;

	op->takes_zeros = true;
	op->takes_from = from;
	allocation->zeroing_from =
		allocation->n_zeroing++ ? MIN(allocation->zeroing_from, from) : from;
	allocation->n_zeroings++;
	allocation_save(allocation);
}

static void zeros_end(struct op *op)
{
	struct allocation *allocation = op->work.uses[0].allocation;
	const struct use *use;

	op->takes_zeros = false;
	allocation->n_zeroing--;
	allocation->zeroing_from = allocation->size;
	for (use = allocation->n_zeroing ? allocation->all_uses : NULL; use;
	     use = use->next_of_all) {
		const struct op *other = container_of(use->work, struct op, work);

		if (other->takes_zeros && use == other->work.uses)
			allocation->zeroing_from =
				MIN(allocation->zeroing_from, other->takes_from);
	}
	allocation_save(allocation);
}

static const struct op_class zero_class = {
	.what = "zeroing",
	.begin = zero_begin,
	.run = zero_run,
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
	from = MIN(from, allocation->zeros_from);
	zero->worker = allocation->kind == KIND_HOST ? NULL : worker;
	work_use(&zero->work, allocation, from, allocation->size - from, true);
	return zero;
}

int zero_add(struct op *zero, struct op **ret_ready)
{
	struct allocation *allocation = zero->work.uses[0].allocation;
	int r = op_add_to_order(zero);

	if (r < 0)
		return r;
	allocation->zeros_from = allocation->size;
	zeros_begin(zero, zero->work.uses[0].offset);
	zero->broker->registry->n_busy++;
	if (zero->work.n_before == 0)
		op_push_ready(ret_ready, zero);
	return 0;
}

/* Adds zeroing of an allocation that the op uses. */
static int zero_add_before(struct op *op, struct allocation *allocation,
			   struct op **ret_ready)
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

/* ---- ops that take the zeros ---- */

/* At the mover already, or behind such works alone. */
static bool ends_soon(const struct work *work)
{
	return container_of(work, struct op, work)->takes_zeros || op_is_soon_done(work);
}

/*
 * An op that waits would hold up the uses of all other bytes. And an owner's worker that
 * has the memory mapped for a copy could read the old bytes.
 */
static bool zeros_take(struct op *op, struct use *use)
{
	struct allocation *allocation = use->allocation;
	const struct work *last = op->work.stream ? op->work.stream->last : NULL;
	uint64_t from;

	if (use != &op->work.uses[0] || !op->class->overwrites ||
	    op->worker != &op->broker->processes->mover ||
	    use->offset > allocation->zeros_from || allocation->n_zeroing == TAKERS_MAX ||
	    (last && !ends_soon(last)))
		return false;
	use->beyond = allocation->size - use->offset - use->length;
	if (!order_all_before(&op->work, ends_soon)) {
		use->beyond = 0;
		return false;
	}
	from = allocation->zeros_from;
	allocation->zeros_from = use->offset + use->length;
	zeros_begin(op, from);
	return true;
}

void zeros_untake(struct op *op)
{
	struct allocation *allocation;

	if (!op->takes_zeros)
		return;
	allocation = op->work.uses[0].allocation;
	allocation->zeros_from = MIN(allocation->zeros_from, op->takes_from);
	zeros_end(op);
}

int zeros_before(struct op *op, struct op **ret_ready)
{
	/* What is read first: a copy within one allocation may read owed zeros. */
	for (unsigned int i = op->work.n_uses; i-- > 0;) {
		struct use *use = &op->work.uses[i];
		struct allocation *allocation = use->allocation;
		int r = 0;

		if (!use->watches && use->offset + use->length > allocation->zeros_from &&
		    !zeros_take(op, use))
			r = zero_add_before(op, allocation, ret_ready);
		if (r < 0)
			return r;
		use->zeroing = allocation->n_zeroings;
	}
	return 0;
}

/* ---- instead of an op that failed ---- */

static enum begun instead_begin(struct op *op)
{
	const struct instead *instead = &op->instead;

	if (op->work.uses[0].allocation->state == ALLOCATION_LOST)
		return OP_OVER;
	if (instead->after &&
	    checkpoint_park_until_end(instead->after, instead->after_epoch, &op->work))
		return OP_PARKED;
	zero_ask(op, instead->offset, instead->length);
	return OP_RUN;
}

static void instead_describe(const struct op *op, struct text *text)
{
	text_printf(text, "its zeroing of allocation %s", op_allocation_name(op).text);
}

static const struct op_class instead_class = {
	.what = "zeroing",
	.begin = instead_begin,
	.describe = instead_describe,
	.repeatable = true,
	.on_lost = true,
};

void op_zero_instead(struct op *op, uint64_t offset, uint64_t length,
		     struct worker *after, int error)
{
	op->instead = (struct instead){
		.class = op->class,
		.sentence = op->sentence,
		.error = error,
		.offset = offset,
		.length = length,
		.after = after,
		.after_epoch = after ? worker_newest_epoch(after) : 0,
	};
	op->sentence = (struct text)TEXT_INIT;
	op->class = &instead_class;
	op->error = 0;
	/* The allocation has been used, so there is one. */
	op->worker = allocation_worker(op->broker, op->work.uses[0].allocation);
	op->only_use = 0;
	op->n_asked = 0;
	op->asked_again = false;
	op->rest = 0;
	pthread_mutex_unlock(&op->broker->registry->lock);
	op_start_again(op);
}

/* Returns: the errno of the op. */
static int instead_end(struct op *op, int error)
{
	struct instead instead = op->instead;

	if (error)
		text_printf(&instead.sentence, "; but %s", text_string(&op->sentence));
	text_deinit(&op->sentence);
	op->sentence = instead.sentence;
	if (error && op->takes_zeros)
		zeros_owe(op, op->takes_from);
	op->class = instead.class;
	op->instead = (struct instead){ 0 };
	return instead.error;
}

bool zeros_hold_up(struct op *op, int *error)
{
	const struct use *use = op->work.uses;

	if (op->instead.class) {
		*error = instead_end(op, *error);
	} else if (*error && op->takes_zeros && op->class->overwrites) {
		op_zero_instead(op, op->takes_from,
				use->offset + use->length - op->takes_from, NULL, *error);
		return true;
	} else if (*error && op->takes_zeros) {
		zeros_owe(op, op->takes_from);
	}
	if (op->takes_zeros)
		zeros_end(op);
	return false;
}
