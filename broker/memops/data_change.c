/* SPDX-License-Identifier: MIT */
/*
 * Truncations, zeros and copies of `data`.
 *
 * The kernel holds the lock of the file until the answer, and no signal ends the wait for
 * that lock. So these are answered once they have their place in the order.
 */
#include <errno.h>
#include <string.h>

#include "base/completion.h"
#include "base/number.h"
#include "base/refusal.h"
#include "memops/copy.h"
#include "memops/data.h"
#include "memops/data_answer.h"
#include "memops/fill.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "op/op.h"
#include "process/broker.h"

/* Releases the lock; r is that of adding the op. */
static void data_queued(struct op *op, int r, struct op *ready, struct completion *wait)
{
	const uint64_t length = op->work.uses[0].length;

	if (r < 0)
		data_note_refused(op, r);
	else
		allocation_written(op->work.uses[0].allocation);
	pthread_mutex_unlock(&op->broker->registry->lock);
	op_start(ready);
	if (r < 0)
		data_drop_op(op, wait);
	else
		data_answer(wait, 0, length);
}

/* Reports a failure on the GPU; other failures were reported before. */
static void told_finish(struct op *op)
{
	if (op->error)
		data_fail(op->broker, op->uid, op->pid, op_name(op),
			  data_errno(op->error), text_string(&op->sentence));
}

/* Releases the lock and answers the wait. */
static void data_lost(struct broker *broker, const struct allocation *allocation,
		      const struct caller *caller, struct completion *wait)
{
	char name[FULL_NAME_MAX + 1];
	struct refusal refusal;
	int r = refuse_lost(&refusal, allocation);

	strcpy(name, allocation_name(allocation).text);
	pthread_mutex_unlock(&broker->registry->lock);
	data_fail(broker, caller->uid, caller->pid, name, -r, refusal.sentence);
	data_answer(wait, r, 0);
}

/* With the lock held and a valid range. */
static void zero_range(struct broker *broker, struct allocation *allocation,
		       const struct caller *caller, struct writer *writer,
		       uint64_t offset, uint64_t length, struct completion *wait)
{
	struct op *op, *ready = NULL;
	int r;

	if (length == 0) {
		pthread_mutex_unlock(&broker->registry->lock);
		data_answer(wait, 0, 0);
		return;
	}
	/* A write to `data` moves no pages: `cat f >data` begins with a truncate. */
	op = fill_op_new(broker, allocation->owner, allocation, offset, length, 0, 1,
			 true, told_finish);
	if (!op) {
		data_no_memory(broker, wait);
		return;
	}
	op->work.writer = writer_queues(writer);
	data_charge(op, caller);
	r = op_add(op, &ready);
	data_queued(op, r, ready, wait);
}

void broker_zero(struct broker *broker, struct writer *writer,
		 const struct caller *caller, uint64_t offset, uint64_t length,
		 struct completion *wait)
{
	struct allocation *allocation =
		data_find_to_write(broker, writer->token, caller, wait);

	if (!allocation)
		return;
	if (offset > allocation->size || length > allocation->size - offset)
		data_no_space(broker, allocation, caller, offset, length, wait);
	else if (allocation->state == ALLOCATION_LOST)
		data_lost(broker, allocation, caller, wait);
	else
		zero_range(broker, allocation, caller, writer, offset, length, wait);
}

/* Releases the lock and answers the wait. */
static void truncate_no_space(struct broker *broker, const struct allocation *allocation,
			      const struct caller *caller, uint64_t size,
			      struct completion *wait)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	char name[FULL_NAME_MAX + 1];

	strcpy(name, allocation_name(allocation).text);
	text_printf(&text, "%s can't be truncated to %s: it has %s and does not grow",
		    name, size_text(size), size_text(allocation->size));
	pthread_mutex_unlock(&broker->registry->lock);
	data_fail(broker, caller->uid, caller->pid, name, ENOSPC, text_string(&text));
	data_answer(wait, -ENOSPC, 0);
}

/* A program that has the memory mapped sees the zeros without an op of the broker. */
static bool truncate_now(const struct allocation *allocation)
{
	return allocation->kind == KIND_HOST || allocation->rare->n_leases;
}

static void truncate_by_op(struct broker *broker, struct allocation *allocation,
			   const struct caller *caller, uint64_t size,
			   struct completion *wait)
{
	struct op *op = op_zero_new(broker, allocation, size), *ready = NULL;
	int r;

	if (!op) {
		data_no_memory(broker, wait);
		return;
	}
	data_charge(op, caller);
	op->finish = told_finish;
	r = op_zero_add(op, &ready);
	data_queued(op, r, ready, wait);
}

/*
 * Zeros that are owed need no op: the next use of them zeroes them first, or writes over
 * them. Releases the lock and answers.
 */
static void truncate_at(struct broker *broker, struct allocation *allocation,
			const struct caller *caller, uint64_t size,
			struct completion *wait)
{
	if (truncate_now(allocation)) {
		truncate_by_op(broker, allocation, caller, size, wait);
		return;
	}
	allocation->zeros_from = MIN(allocation->zeros_from, size);
	allocation->n_writes++;
	allocation_written(allocation);
	allocation_save(allocation);
	pthread_mutex_unlock(&broker->registry->lock);
	data_answer(wait, 0, 0);
}

void broker_truncate(struct broker *broker, struct token token,
		     const struct caller *caller, uint64_t size, struct completion *wait)
{
	struct allocation *allocation = data_find_to_write(broker, token, caller, wait);

	if (!allocation)
		return;
	if (size > allocation->size) {
		truncate_no_space(broker, allocation, caller, size, wait);
	} else if (allocation->state == ALLOCATION_LOST) {
		data_lost(broker, allocation, caller, wait);
	} else if (size == allocation->size) {
		pthread_mutex_unlock(&broker->registry->lock);
		data_answer(wait, 0, 0);
	} else {
		truncate_at(broker, allocation, caller, size, wait);
	}
}

/* ---- copies ---- */

/* Largest count of copy_file_range, in whole huge pages: the answer has 32 bits. */
#define COPY_RANGE_MAX 0xffe00000ull

/*
 * The descriptors had the right when they were opened. But a copy may wait for the other
 * side for as long as the caller likes, so the copy asks for the right of now. Releases
 * the lock and answers.
 */
static void copy_not_allowed(struct broker *broker, const struct allocation *allocation,
			     const struct caller *caller, struct completion *wait)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	char name[FULL_NAME_MAX + 1];

	strcpy(name, allocation_name(allocation).text);
	text_printf(&text,
		    "allocation %s of uid %u, with mode %04o, is shut off from uid %u",
		    name, allocation->owner->uid, allocation->mode, caller->uid);
	pthread_mutex_unlock(&broker->registry->lock);
	data_fail(broker, caller->uid, caller->pid, name, EACCES, text_string(&text));
	data_answer(wait, -EACCES, 0);
}

void broker_copy_range(struct broker *broker, struct token source, uint64_t source_offset,
		       struct writer *target, uint64_t target_offset, uint64_t length,
		       const struct caller *caller, struct completion *wait)
{
	struct allocation *from = data_find(broker, source, caller, wait), *to;
	struct op *op, *ready = NULL;
	int r;

	if (!from)
		return;
	pthread_mutex_unlock(&broker->registry->lock);
	to = data_find_to_write(broker, target->token, caller, wait);
	if (!to)
		return;
	/* The lock was released in between. */
	from = allocation_get(broker->registry, source.slot, source.generation);
	if (!from || source_offset >= from->size || length == 0) {
		pthread_mutex_unlock(&broker->registry->lock);
		data_answer(wait, from ? 0 : -ESTALE, 0);
		return;
	}
	length = MIN(length, from->size - source_offset);
	length = MIN(length, (uint64_t)COPY_RANGE_MAX);
	if (target_offset >= to->size) {
		data_no_space(broker, to, caller, target_offset, length, wait);
		return;
	}
	if (from->state == ALLOCATION_LOST || to->state == ALLOCATION_LOST) {
		data_lost(broker, to->state == ALLOCATION_LOST ? to : from, caller, wait);
		return;
	}
	if (!caller_may(caller, from, ACCESS_READ) ||
	    !caller_may(caller, to, ACCESS_WRITE)) {
		copy_not_allowed(broker,
				 caller_may(caller, from, ACCESS_READ) ? to : from,
				 caller, wait);
		return;
	}
	length = MIN(length, to->size - target_offset);
	op = copy_op_new(broker, to->owner, to, target_offset, from, source_offset,
			 length, told_finish);
	if (!op) {
		data_no_memory(broker, wait);
		return;
	}
	op->work.writer = writer_queues(target);
	data_charge(op, caller);
	r = op_add(op, &ready);
	data_queued(op, r, ready, wait);
}
