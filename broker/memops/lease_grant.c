/* SPDX-License-Identifier: MIT */
/*
 * Grants and holds of leases, in the order of uses.
 *
 * A lease is granted by an op that reads the whole allocation, after zeroing and earlier
 * writes. Afterwards a program's kernels are outside the order of uses, except during a
 * hold: an op that stays under way until it is released.
 */
#include "memops/lease_private.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/completion.h"
#include "base/refusal.h"
#include "base/text.h"
#include "memops/lease_file.h"
#include "memops/move.h"
#include "memops/withdrawal.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/order.h"
#include "model/registry.h"
#include "model/shares.h"
#include "op/op.h"
#include "process/broker.h"

struct lease_op {
	struct op op;
	struct lease *lease;
};

static const struct op_class hold_class;

static struct lease *lease_of(struct op *op)
{
	return container_of(op, struct lease_op, op)->lease;
}

/* Makes an op that uses the whole allocation. Under registry.lock. NULL: no memory. */
static struct op *lease_op_new(struct lease *lease, const struct op_class *class,
			       bool write, void (*finish)(struct op *op))
{
	struct allocation *allocation = lease->allocation;
	struct op *op =
		op_new(sizeof(struct lease_op), class, lease->broker, allocation->owner);

	if (!op)
		return NULL;
	container_of(op, struct lease_op, op)->lease = lease;
	lease->n_refs++;
	op->payer = lease->user;
	op->uid = lease->uid;
	op->pid = lease->pid;
	op->finish = finish;
	op->work.may_leave = class == &hold_class;
	work_use(&op->work, allocation, 0, allocation->size, write);
	return op;
}

/* Adds the op and releases the lock; on failure frees the op and answers. */
static void lease_op_add(struct lease *lease, struct op *op, struct completion *wait)
{
	struct broker *broker = lease->broker;
	struct op *ready = NULL;
	int r = -ENOMEM;

	if (op)
		r = op_add(op, &ready);
	if (r == 0)
		op_hold(op, wait);
	else if (op && op->class == &hold_class)
		lease->hold = GPUMEM_HOLD_NONE;
	if (r < 0 && op)
		lease_unref(lease);
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(ready);
	if (r < 0) {
		op_free(op);
		wait->done(wait, r, NULL, 0);
	}
}

/* ---- being granted ---- */

static void lease_answer(struct lease *lease, struct completion *wait)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	struct broker *broker = lease->broker;

	pthread_mutex_lock(&broker->registry->lock);
	lease_print(lease, &text);
	pthread_mutex_unlock(&broker->registry->lock);
	if (text_failed(&text))
		wait->done(wait, -ENOMEM, NULL, 0);
	else
		wait->done(wait, 0, text_string(&text), text.length);
}

/* The move out of a shared block came before; it may have failed. */
static enum begun grant_begin(struct op *op)
{
	const struct allocation *allocation = op->work.uses[0].allocation;
	struct refusal refusal;

	/* What the program is about to store is not for users who were shut off. */
	if (lease_of(op)->write && writer_is_barred(op))
		return OP_PARKED;
	if (!allocation_shares_block(allocation))
		return OP_RUN;
	(void)refuse_shared(&refusal, allocation);
	return op_refuse(op, refusal.error, "%s", refusal.sentence);
}

static void grant_run(struct op *op)
{
	op_done(op, 0);
}

static void grant_finish(struct op *op)
{
	const struct caller caller = { .uid = op->uid, .pid = op->pid };
	struct lease *lease = lease_of(op);
	struct broker *broker = op->broker;
	struct completion *wait = op->completion;

	if (op->error && wait)
		lease_fail(broker, &caller, op_name(op), op->error,
			   text_string(&op->sentence));
	pthread_mutex_lock(&broker->registry->lock);
	if (!op->error && !lease->granted) {
		lease->granted = true;
		lease_save(lease);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	if (wait && op->error)
		wait->done(wait, -op->error, NULL, 0);
	else if (wait)
		lease_answer(lease, wait);
	pthread_mutex_lock(&broker->registry->lock);
	lease_unref(lease);
	pthread_mutex_unlock(&broker->registry->lock);
}

static const struct op_class grant_class = {
	.what = "lease",
	.begin = grant_begin,
	.run = grant_run,
	.quiet = true,
};

/*
 * A program that maps a block can use all of it: an allocation in a shared block moves
 * first. With the lock held; releases the lock.
 */
static void lease_grant(struct lease *lease, struct completion *wait)
{
	const struct caller caller = { .uid = lease->uid, .pid = lease->pid };
	struct op *op = lease_op_new(lease, &grant_class, false, grant_finish);
	struct broker *broker = lease->broker;
	char name[FULL_NAME_MAX + 1];
	struct op *ready = NULL;
	struct refusal refusal;
	int r = 0;

	strcpy(name, allocation_name(lease->allocation).text);
	if (op)
		r = move_out(broker, &op->work.uses[0], &caller, &ready, &refusal);
	if (r == 0) {
		lease_op_add(lease, op, wait);
	} else {
		lease_unref(lease);
		pthread_mutex_unlock(&broker->registry->lock);
		op_free(op);
		lease_fail(broker, &caller, name, refusal.error, refusal.sentence);
		wait->done(wait, r, NULL, 0);
	}
	op_start(ready);
}

void broker_lease_read(struct lease *lease, struct completion *wait)
{
	struct broker *broker = lease->broker;
	const struct allocation *allocation;

	pthread_mutex_lock(&broker->registry->lock);
	if (lease->changed) {
		lease->changed = false;
		lease_save(lease);
	}
	allocation = lease->allocation;
	/*
	 * During a hold no new grant is needed; a grant would be queued behind the hold.
	 */
	if (!allocation || allocation->state == ALLOCATION_FREED || lease->held) {
		pthread_mutex_unlock(&broker->registry->lock);
		lease_answer(lease, wait);
	} else {
		lease_grant(lease, wait);
	}
}

bool broker_lease_changed(struct lease *lease)
{
	bool changed;

	pthread_mutex_lock(&lease->broker->registry->lock);
	changed = lease->changed || lease_is_untold(lease);
	pthread_mutex_unlock(&lease->broker->registry->lock);
	return changed;
}

void broker_lease_note_poll(struct lease *lease, uint64_t poll)
{
	pthread_mutex_lock(&lease->broker->registry->lock);
	if (lease->poll != poll) {
		lease->poll = poll;
		lease_save(lease);
	}
	pthread_mutex_unlock(&lease->broker->registry->lock);
}

/* ---- holding ---- */

/* The hold's turn has come. Without a waiting program the hold is dropped. */
static void hold_run(struct op *op)
{
	struct lease *lease = lease_of(op);
	struct broker *broker = op->broker;
	struct completion *wait = NULL;
	bool ending;

	pthread_mutex_lock(&broker->registry->lock);
	ending = !lease->allocation;
	if (!ending)
		wait = completion_take(&op->completion);
	if (wait) {
		lease->held = op;
		lease_save(lease);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	if (wait)
		wait->done(wait, 0, NULL, 0);
	else if (ending)
		op_fail(op, ESTALE, "the broker is shutting down");
	else
		op_done(op, 0);
}

static void hold_settle(struct op *op)
{
	struct lease *lease = lease_of(op);

	if (lease->hold == GPUMEM_HOLD_WRITE && lease->allocation)
		allocation_written(lease->allocation);
	lease->hold = GPUMEM_HOLD_NONE;
}

static void hold_finish(struct op *op)
{
	const struct caller caller = { .uid = op->uid, .pid = op->pid };
	struct lease *lease = lease_of(op);
	struct completion *wait = op->completion;

	if (wait) {
		lease_fail(op->broker, &caller, op_name(op), op->error,
			   text_string(&op->sentence));
		wait->done(wait, -op->error, NULL, 0);
	}
	pthread_mutex_lock(&op->broker->registry->lock);
	/* A signal ended the wait: the hold left the order unsettled. */
	if (op->left)
		lease->hold = GPUMEM_HOLD_NONE;
	lease_unref(lease);
	pthread_mutex_unlock(&op->broker->registry->lock);
}

static const struct op_class hold_class = {
	.what = "hold",
	.held = true,
	.run = hold_run,
	.settle = hold_settle,
	.quiet = true,
};

static const char *const hold_lines[] = {
	[GPUMEM_HOLD_NONE] = "release",
	[GPUMEM_HOLD_READ] = "hold r",
	[GPUMEM_HOLD_WRITE] = "hold w",
};

/* Returns: the enum gpumem_hold of the line, or a value outside it. */
static uint32_t hold_parse(const char *line, size_t length)
{
	uint32_t hold = 0;

	if (length && line[length - 1] == '\n')
		length--;
	while (hold < ARRAY_SIZE(hold_lines) &&
	       (strlen(hold_lines[hold]) != length ||
		memcmp(hold_lines[hold], line, length) != 0))
		hold++;
	return hold;
}

/* Under registry.lock. */
static int hold_check(const struct lease *lease, uint32_t hold, struct refusal *refusal)
{
	if (hold >= ARRAY_SIZE(hold_lines))
		return refuse(refusal, EINVAL,
			      "a lease takes one of: hold r, hold w, release");
	if (hold == GPUMEM_HOLD_NONE && lease->held)
		return 0;
	if (hold == GPUMEM_HOLD_NONE)
		return refuse(refusal, EINVAL, "lease %llu holds nothing to release",
			      (unsigned long long)lease->id);
	if (!lease->allocation || lease->allocation->state == ALLOCATION_FREED)
		return refuse(refusal, ESTALE, "%s",
			      lease->allocation ? "it has been freed"
						: "the broker is shutting down");
	if (lease->hold != GPUMEM_HOLD_NONE)
		return refuse(refusal, EBUSY,
			      "lease %llu has or waits for hold=%s already: release it "
			      "first",
			      (unsigned long long)lease->id, hold_name(lease->hold));
	if (hold == GPUMEM_HOLD_WRITE && !lease->write)
		return refuse(refusal, EACCES,
			      "hold w needs a lease that was opened for writing");
	return 0;
}

void broker_lease_hold(struct lease *lease, const struct caller *caller, uint32_t hold,
		       struct completion *wait)
{
	struct broker *broker = lease->broker;
	/* A line may be what a program of root printed into a descriptor it was given. */
	const struct caller opener = { .uid = lease->uid, .pid = caller->pid };
	char name[FULL_NAME_MAX + 1] = "?";
	struct refusal refusal;
	struct op *held;
	int r;

	pthread_mutex_lock(&broker->registry->lock);
	if (lease->allocation)
		strcpy(name, allocation_name(lease->allocation).text);
	r = hold_check(lease, hold, &refusal);
	if (r == 0 && hold != GPUMEM_HOLD_NONE) {
		lease->hold = (enum gpumem_hold)hold;
		lease_op_add(lease,
			     lease_op_new(lease, &hold_class, hold == GPUMEM_HOLD_WRITE,
					  hold_finish),
			     wait);
		return;
	}
	held = r == 0 ? take_ptr(lease->held) : NULL;
	if (held)
		lease_save(lease);
	pthread_mutex_unlock(&broker->registry->lock);
	if (r < 0)
		lease_fail(broker, &opener, name, refusal.error, refusal.sentence);
	if (held)
		op_done(held, 0);
	wait->done(wait, r, NULL, 0);
}

void broker_lease_write(struct lease *lease, const struct caller *caller,
			const char *line, size_t length, struct completion *wait)
{
	broker_lease_hold(lease, caller, hold_parse(line, length), wait);
}
