/* SPDX-License-Identifier: MIT */
/*
 * close and fsync of `data`, and the errors of writes that were answered before they
 * failed.
 *
 * A sync waits for the writes of its own descriptor and for nothing else: no work of
 * others, queued before or behind, keeps a program from closing its file.
 *
 * An allocation counts failed writes, and each descriptor knows the count it was told of.
 * So every descriptor that was open when a write failed is told once, and no other
 * descriptor takes the error away.
 */
#include <errno.h>
#include <utlist.h>

#include "base/completion.h"
#include "memops/data.h"
#include "memops/data_answer.h"
#include "memops/fill.h"
#include "model/allocation.h"
#include "model/registry.h"
#include "op/op.h"
#include "process/broker.h"

struct sync {
	struct op op;
	struct writer *writer; /* exists as long as op.completion */
};

void broker_writer_init(struct broker *broker, struct writer *writer, struct token token)
{
	const struct allocation *allocation;

	*writer = (struct writer){ .token = token };
	pthread_mutex_lock(&broker->registry->lock);
	writer->number = ++broker->registry->n_writers;
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	if (allocation)
		writer->n_errors_told = allocation->n_write_errors;
	pthread_mutex_unlock(&broker->registry->lock);
}

void data_settle(struct op *op)
{
	struct allocation *allocation = op->work.uses[0].allocation;

	if (!op->error || !op->work.writer || op->completion)
		return;
	allocation->write_error = data_errno(op->error);
	allocation->n_write_errors++;
}

uint64_t writer_queues(struct writer *writer)
{
	writer->has_queued = true;
	return writer->number;
}

/* Returns: 0; the errno of the last failed write, if the writer does not know of it. */
static int writer_tell(struct writer *writer, const struct allocation *allocation)
{
	if (writer->n_errors_told == allocation->n_write_errors)
		return 0;
	writer->n_errors_told = allocation->n_write_errors;
	return allocation->write_error;
}

/* Spares others the look at all uses, which may be many, for a writer without works. */
static bool writer_has_works(struct writer *writer, const struct allocation *allocation)
{
	const struct use *use;

	if (!writer->has_queued)
		return false;
	DL_FOREACH2(allocation->all_uses, use, next_of_all)
	{
		if (use->work->writer == writer->number)
			return true;
	}
	writer->has_queued = false;
	return false;
}

static void sync_settle(struct op *op)
{
	struct writer *writer = container_of(op, struct sync, op)->writer;

	if (!op->error && op->completion)
		op->error = writer_tell(writer, op->work.uses[0].allocation);
}

static void sync_finish(struct op *op)
{
	if (op->completion)
		data_answer(op->completion, op->error ? -data_errno(op->error) : 0, 0);
}

static struct op *sync_new(struct broker *broker, struct allocation *allocation,
			   struct writer *writer, const struct caller *caller)
{
	static const struct op_class sync_class = {
		.what = "sync",
		.begin = op_begin_nothing,
		.settle = sync_settle,
		.on_lost = true,
	};
	struct op *op =
		op_new(sizeof(struct sync), &sync_class, broker, allocation->owner);

	if (!op)
		return NULL;
	container_of(op, struct sync, op)->writer = writer;
	data_charge(op, caller);
	op->finish = sync_finish;
	op->work.may_leave = true;
	op->work.syncs = writer->number;
	work_use(&op->work, allocation, 0, allocation->size, false);
	op->work.uses[0].watches = true;
	return op;
}

void broker_sync(struct broker *broker, struct writer *writer,
		 const struct caller *caller, struct completion *wait)
{
	struct allocation *allocation;
	struct op *op, *ready = NULL;
	int error, r;

	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, writer->token.slot,
				    writer->token.generation);
	/* Closing a freed allocation is no error: no data is left to write. */
	if (!allocation || !writer_has_works(writer, allocation)) {
		error = allocation ? writer_tell(writer, allocation) : 0;
		pthread_mutex_unlock(&broker->registry->lock);
		data_answer(wait, -error, 0);
		return;
	}
	op = sync_new(broker, allocation, writer, caller);
	if (!op) {
		data_no_memory(broker, wait);
		return;
	}
	r = op_add(op, &ready);
	if (r == 0)
		op_hold(op, wait);
	else
		data_note_refused(op, r);
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(ready);
	if (r < 0)
		data_drop_op(op, wait);
}
