/* SPDX-License-Identifier: MIT */
/* Ready ops begin, run, and begin again after a wait for a slot, a turn or a worker. */
#include <errno.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/refusal.h"
#include "base/workqueue.h"
#include "memory/block.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/registry.h"
#include "op/op.h"
#include "process/checkpoint.h"
#include "process/orphans.h"
#include "process/processes.h"

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

/* Writes the request; a repeated request gets new addresses. */
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

void op_resume(struct work *works)
{
	op_start(op_list(works));
}
