/* SPDX-License-Identifier: MIT */
#include "op/op.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/completion.h"
#include "base/crash.h"
#include "base/refusal.h"
#include "base/workqueue.h"
#include "memory/block.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "model/stream.h"
#include "op/zero.h"
#include "process/checkpoint.h"
#include "process/orphans.h"
#include "process/processes.h"

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

/* ---- the beginning ---- */

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
 * Checks that the allocations used are neither lost nor unzeroed, and that the broker has
 * the memory mapped which no worker is asked for.
 */
static enum begun op_check_uses(struct op *op)
{
	struct refusal refusal;
	int r;

	for (unsigned int i = 0; i < op->work.n_uses; i++) {
		const struct use *use = &op->work.uses[i];
		const struct allocation *allocation = use->allocation;

		if (allocation->state == ALLOCATION_LOST) {
			(void)refuse_lost(&refusal, allocation);
			return op_refuse(op, refusal.error, "%s", refusal.sentence);
		}
		if (use->zeroing && use->zeroing <= allocation->zeroing_failed)
			return op_refuse(op, EIO, "%s",
					 allocation->rare->zeroing_failure
						 ?: "it could not be zeroed");
		r = op->worker || !allocation->block ? 0 : block_map(allocation->block);
		if (r < 0)
			return op_refuse(op, -r,
					 "the broker has no memory to map allocation %s",
					 allocation_name(allocation).text);
	}
	return OP_RUN;
}

static void address_move(uint64_t *address, const struct use *use)
{
	const struct allocation *allocation = use->allocation;

	if (*address >= use->address && *address - use->address < allocation->size)
		*address += allocation->address - use->address;
}

/* Replaces addresses in the request that changed since the first attempt. */
static void op_move_request(struct op *op)
{
	struct wire_request *request = &op->request.record;

	for (unsigned int i = 0; i < op->work.n_uses; i++) {
		const struct use *use = &op->work.uses[i];

		if (!use->address || use->address == use->allocation->address ||
		    (op->only_use >= 0 && op->only_use != (int)i))
			continue;
		/* The first use of a copy is the target, the second the source. */
		address_move(i && op->only_use < 0 ? &request->source : &request->address,
			     use);
	}
}

/* Writes the request, or prepares the one that is sent again. */
static enum begun op_prepare(struct op *op)
{
	enum begun begun = OP_RUN;

	if (op->asked_again)
		op_move_request(op);
	else if (!op->class->on_lost)
		begun = op_check_uses(op);
	/* For requests written without the lock: op_find_needs() detects a change. */
	for (unsigned int i = 0; i < op->work.n_uses; i++)
		op->work.uses[i].address = op->work.uses[i].allocation->address;
	if (begun != OP_RUN || op->asked_again)
		return begun;
	op->request.record.op = 0;
	return op->class->begin ? op->class->begin(op) : OP_RUN;
}

/*
 * Decides whether a ready op runs now, and prepares its request with the needs. Under
 * registry.lock.
 */
static enum begun op_begin(struct op *op)
{
	enum begun begun;
	int r;

	if (op->work.ended || op->refused)
		return OP_OVER;
	r = op->worker ? worker_prepare(op->worker) : 0;
	if (r < 0)
		return op_refuse(op, worker_start_errno(r), "%s",
				 worker_lacks_means(r) ?: strerror(-r));
	if (checkpoint_park(&op->work) || orphans_park(op->broker, &op->work) ||
	    !turn_take(op))
		return OP_PARKED;
	begun = op_prepare(op);
	if (begun != OP_RUN)
		return begun;
	op->asked_again = false;
	op->ran = true;
	if (op->work.chain) {
		order_sending(&op->work);
		op_limit(op);
	}
	if (op->request.record.op)
		(void)op_find_needs(op);
	return OP_RUN;
}

/* The op is out of the order: answers, and starts the ops that waited for this op. */
static void op_end(struct op *op, struct op *ready)
{
	if (op->class->leave)
		op->class->leave(op);
	if (op->finish)
		op->finish(op);
	op_free(op);
	op_start(ready);
}

static void op_run(struct op *op)
{
	pthread_mutex_t *lock = &op->broker->registry->lock;
	bool again = op->asked_again;
	enum begun begun;

	if (op->left) {
		op_end(op, NULL);
		return;
	}
	pthread_mutex_lock(lock);
	begun = op_begin(op);
	if (begun == OP_OVER) {
		op_complete(op, op->error);
		return;
	}
	pthread_mutex_unlock(lock);
	if (begun == OP_PARKED)
		return;
	if (op->class->run && !again)
		op->class->run(op);
	else
		op_submit(op);
}

/* From so many ops on, a thread looks how long it has been running them. */
#define FEW_OPS 4
/* So long a thread runs ops one after the other. */
#define RUNS_NS 1000000

/*
 * Runs ready ops, and those that become ready meanwhile. An op done within its run() only
 * extends the list of the outer loop, so a long chain needs no deep stack.
 *
 * All users may wait for the thread: for a receiver of the mover's answers, or the
 * housekeeper. A user who adds ops as fast as they run could keep the thread for ever, so
 * the ops that are left after a moment go to the work queue, where users take turns.
 */
static __thread struct op *ready_list;
static __thread bool ready_loop;
static __thread unsigned int n_holds;

void op_starts_hold(void)
{
	n_holds++;
}

void op_starts_release(void)
{
	struct op *held;

	if (--n_holds > 0)
		return;
	/* The list has the last op first. */
	held = take_ptr(ready_list);
	op_push_all(&ready_list, held);
	op_start(NULL);
}

static struct op *take_ready(void)
{
	struct op *op = ready_list;

	ready_list = op->next_ready;
	op->next_ready = NULL;
	return op;
}

static void run_later(struct task *task)
{
	op_start_again(container_of(task, struct op, later));
}

static void hand_over(void)
{
	while (ready_list) {
		struct op *op = take_ready();

		op->later.run = run_later;
		workqueue_add(op->broker->workqueue, op->payer ? op->payer->uid : 0,
			      &op->later);
	}
}

void op_start(struct op *ready)
{
	uint64_t begin_ns = 0;

	op_push_all(&ready_list, ready);
	if (ready_loop || n_holds)
		return;
	ready_loop = true;
	for (unsigned int n = 0; ready_list; n++) {
		if (n == FEW_OPS)
			begin_ns = clock_ns(CLOCK_MONOTONIC);
		if (n > FEW_OPS && clock_ns(CLOCK_MONOTONIC) - begin_ns > RUNS_NS)
			hand_over();
		else
			op_run(take_ready());
	}
	ready_loop = false;
}

void op_start_later(struct op *ready)
{
	op_push_all(&ready_list, ready);
}

void op_start_again(struct op *op)
{
	op->next_ready = NULL;
	op_start(op);
}

bool op_slot_get(struct op *op)
{
	return op->staged.slot >= 0 ||
	       staging_slot_get(op->worker, &op->staged, op->payer);
}

void op_slot_release(struct worker *worker, int slot)
{
	struct slot_waiter *waiter = NULL;

	if (slot >= 0)
		waiter = staging_slot_put(worker, (unsigned int)slot);
	if (waiter)
		op_start_again(container_of(waiter, struct op, staged));
}

/* ---- the end ---- */

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

	op_push_all(&ready_list, ready);
	return left;
}

void op_resume(struct work *works)
{
	op_start(op_list(works));
}
