/* SPDX-License-Identifier: MIT */
#include "op/op.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include <utlist.h>

#include "base/completion.h"
#include "base/crash.h"
#include "base/refusal.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "model/stream.h"
#include "op/zero.h"
#include "process/broker.h"

struct op *op_new(size_t size, const struct op_class *class, struct broker *broker,
		  struct owner *owner)
{
	struct op *op = calloc(1, size);

	if (!op)
		return NULL;
	op->class = class;
	op->broker = broker;
	op->owner = owner;
	op->payer = owner;
	op->staged.slot = -1;
	op->only_use = -1;
	op->failure = (struct cuda_failure)CUDA_FAILURE_NONE;
	op->request.fd = -1;
	op->request.done = op_replied;
	op->needs.blocks = op->room;
	crash_hold();
	return op;
}

/* The groups are not known any more when the mode changes while the op waits. */
static void use_judge(struct use *use, const struct caller *caller)
{
	use->judged = true;
	use->group = use->allocation->gid;
	use->member = caller_in_group(caller, use->group);
}

void op_charge(struct op *op, const struct caller *caller)
{
	struct owner *payer = op->payer;

	if (!payer || payer->uid != caller->uid)
		payer = owner_get(op->broker->registry, caller->uid, caller->gid);
	if (!payer)
		return;
	op->payer = payer;
	for (unsigned int i = 0; i < op->work.n_uses; i++)
		use_judge(&op->work.uses[i], caller);
}

struct op *op_free(struct op *op)
{
	if (!op)
		return NULL;
	crash_let_go();
	work_deinit(&op->work);
	if (op->needs.blocks != op->room)
		free(op->needs.blocks);
	text_deinit(&op->sentence);
	free(op->name);
	free(op);
	return NULL;
}

bool op_is_soon_done(const struct work *work)
{
	const struct op *op = container_of(work, struct op, work);
	bool soon = work->n_before == 0 && op->has_turn;

	for (unsigned int i = 0; i < work->n_uses; i++)
		soon = soon && kind_is_durable(work->uses[i].allocation->kind);
	return soon;
}

bool op_would_wait(const struct op *op)
{
	return !order_all_before(&op->work, op_is_soon_done);
}

void op_push_ready(struct op **ready, struct op *op)
{
	LL_PREPEND2(*ready, op, next_ready);
}

void op_push_all(struct op **ready, struct op *list)
{
	while (list) {
		struct op *op = list;

		list = op->next_ready;
		op_push_ready(ready, op);
	}
}

struct op *op_list(struct work *work)
{
	struct op *ready = NULL;

	for (; work; work = work->next_ready)
		op_push_ready(&ready, container_of(work, struct op, work));
	return ready;
}

/* ---- into the order ---- */

/* Who decides when the op ends. The mover's work ends soon. */
static uint64_t op_holder(const struct op *op)
{
	const struct owner *owner = op->worker ? op->worker->owner : NULL;

	if (op->class->held)
		return holder_of(op->payer->uid);
	if (!owner || (op->class->brief && !owner->n_sent))
		return HOLDER_NONE;
	return holder_of(owner->uid);
}

int op_add_to_order(struct op *op)
{
	uint64_t left = UINT_MAX;
	int r;

	for (unsigned int i = 0; i < op->work.n_uses; i++) {
		struct use *use = &op->work.uses[i];

		use->lasts = op->class->kernel || op->payer != use->allocation->owner;
	}
	if (op->asked_for)
		left = share_left(op->payer, SHARE_ORDER);
	r = order_add_within(&op->work, (unsigned int)left);
	if (r == -EBUSY)
		return share_take(op->payer, SHARE_ORDER, left + 1);
	if (r < 0)
		return r;
	op->n_waits = op->work.n_waits;
	share_take_beyond(op->payer, SHARE_ORDER, op->n_waits);
	if (!op->asked_for)
		share_take_beyond(op->payer, SHARE_CHORES, 1);
	return 0;
}

static void op_uncount(struct op *op)
{
	if (op->unawaited)
		stream_end_unawaited(op->work.stream);
	op->unawaited = false;
	share_give(op->payer, SHARE_ORDER, op->n_waits);
	share_give(op->payer, op->asked_for ? SHARE_OPERATIONS : SHARE_CHORES, 1);
	if (op->asked_for)
		share_give(op->payer, SHARE_USES, op->work.n_uses);
}

/* Whether a change of rights may end the op before it begins. */
static bool op_uses_others(const struct op *op)
{
	bool others = op->payer != op->owner;

	for (unsigned int i = 0; i < op->work.n_uses; i++)
		others |= op->work.uses[i].allocation->owner != op->payer;
	return op->class->may_use && others;
}

int op_add_unlimited(struct op *op, struct op **ret_ready)
{
	struct op *ready = NULL;
	int r;

	if (op->work.n_uses > WORK_USES_ROOM) {
		op->needs.blocks = calloc(op->work.n_uses + 1, sizeof(*op->needs.blocks));
		if (!op->needs.blocks)
			return -ENOMEM;
	}
	r = zeros_before(op, &ready);
	op->work.holder = op_holder(op);
	op->work.may_leave |= op_uses_others(op);
	if (r == 0)
		r = op_add_to_order(op);
	if (r < 0) {
		zeros_untake(op);
		goto out;
	}
	op->broker->registry->n_busy++;
	if (op->work.n_before == 0)
		op_push_ready(&ready, op);
out:
	/* An added zeroing is independent and is started in any case. */
	*ret_ready = ready;
	return r;
}

/*
 * op_add() with the function that adds to the order. What follows from other operations
 * is not refused, so it has a share of its own: a limit of operations is never exceeded.
 */
static int op_add_by(struct op *op, struct op **ret_ready,
		     int (*add)(struct op *op, struct op **ret_ready))
{
	int r;

	*ret_ready = NULL;
	if (op->broker->registry->shutting_down)
		return -ESTALE;
	if (!op->payer)
		op->payer = op->owner;
	r = share_take(op->payer, SHARE_OPERATIONS, 1);
	if (r < 0)
		return r;
	r = share_take(op->payer, SHARE_USES, op->work.n_uses);
	if (r < 0) {
		share_give(op->payer, SHARE_OPERATIONS, 1);
		return r;
	}
	op->asked_for = true;
	r = add(op, ret_ready);
	if (r < 0) {
		op_uncount(op);
		op->asked_for = false;
	}
	return r;
}

int op_add(struct op *op, struct op **ret_ready)
{
	return op_add_by(op, ret_ready, op_add_unlimited);
}

int op_zero_add(struct op *zero, struct op **ret_ready)
{
	return op_add_by(zero, ret_ready, zero_add);
}

/* ---- the end ---- */

static void op_set_result(struct op *op, int error, const char *format, va_list args)
{
	char sentence[512];

	(void)vsnprintf(sentence, sizeof(sentence), format, args);
	text_clear(&op->sentence);
	text_printf(&op->sentence, "%s", sentence);
	op->error = error;
}

enum begun op_refuse(struct op *op, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	op_set_result(op, error, format, args);
	va_end(args);
	return OP_OVER;
}

enum begun op_begin_nothing(struct op *op)
{
	(void)op;
	return OP_OVER;
}

/*
 * An op in a chain leaves the order after its predecessors, and after it was sent; but
 * who failed before the start holds up no owner. Under registry.lock. Returns: whether
 * the op has to stay for now.
 */
static bool op_must_stay(struct op *op)
{
	struct detaching alone = { .pairs_left = OP_PAIRS_MOST };

	if (op->work.n_ahead && op->error && op->work.may_leave &&
	    !work_has_begun(&op->work))
		(void)order_detach(&op->work, &alone);
	if (!op->work.n_ahead)
		return false;
	op->work.ended = true;
	return true;
}

/* Gives back all that the payer is charged for, or has for a time: it may end then. */
static void op_give(struct op *op, struct op **ready)
{
	turn_give(op, ready);
	room_give(op, ready);
	op_uncount(op);
	registry_less_busy(op->broker->registry);
}

void op_end(struct op *op, struct op *ready)
{
	if (op->class->leave)
		op->class->leave(op);
	if (op->finish)
		op->finish(op);
	op_free(op);
	op_start(ready);
}

bool op_leave(struct op *op, struct op **ready)
{
	struct work *work = NULL;

	if (!order_leave(&op->work, &work))
		return false;
	*ready = op_list(work);
	op_give(op, ready);
	op->left = true;
	op_push_ready(ready, op);
	return true;
}

int op_turn_away(struct op *op, struct op **ready, const struct refusal *refusal,
		 struct detaching *all)
{
	int r = -EBUSY;

	if (all->pairs_left >= OP_PAIRS_EACH) {
		all->pairs_left -= OP_PAIRS_EACH;
		r = order_detach(&op->work, all);
	}
	if (r == -ENOMEM)
		return r;
	if (!op->work.ended)
		(void)op_refuse(op, refusal->error, "%s", refusal->sentence);
	op->refused = true;
	if (r < 0)
		return 0;
	op->work.ended = true;
	op_push_ready(ready, op);
	return 0;
}

/* Counts a kernel that has ended, and bytes that were moved. */
static void op_count(const struct op *op)
{
	const struct use *use = op->work.n_uses ? &op->work.uses[0] : NULL;
	struct meter *meter = op->payer->meter;

	if (op->class->kernel)
		meter->devices[op->request.record.device].launches++;
	if (op->class->moves && use && !op->error)
		meter_of(meter, use->allocation)
			->moved[op->class->moves][use->allocation->kind] +=
			op->moved ? op->moved : use->length;
}

void op_complete(struct op *op, int error)
{
	struct broker *broker = op->broker;
	struct work *work = NULL;
	struct op *ready;

	if (zeros_hold_up(op, &error))
		return;
	op->error = error;
	if (op_must_stay(op)) {
		pthread_mutex_unlock(&broker->registry->lock);
		return;
	}
	if (op->completion)
		completion_seal(op->completion);
	op_unlimit(op);
	if (error && op->work.n_uses)
		op_keep_name(op);
	op_fail_stream(op);
	if (op->ran)
		op_count(op);
	if (op->class->settle)
		op->class->settle(op);
	order_done(&op->work, &work);
	ready = op_list(work);
	op_give(op, &ready);
	pthread_mutex_unlock(&broker->registry->lock);

	op_end(op, ready);
}

void op_done(struct op *op, int error)
{
	pthread_mutex_lock(&op->broker->registry->lock);
	op_complete(op, error);
}

void op_fail(struct op *op, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	op_set_result(op, error, format, args);
	va_end(args);
	op_done(op, error);
}

bool op_leave_quietly(struct op *op)
{
	struct op *ready = NULL;
	bool left = op_leave(op, &ready);

	op_start_later(ready);
	return left;
}
