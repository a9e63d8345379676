/* SPDX-License-Identifier: MIT */
/* The end of a wait, and what becomes of an op that nobody waits for. */
#include "op/interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/completion.h"
#include "base/text.h"
#include "model/journal.h"
#include "model/registry.h"
#include "model/stream.h"
#include "op/op.h"
#include "process/broker.h"

static int op_cancelled(struct completion **holder)
{
	(void)op_leave_quietly(container_of(holder, struct op, completion));
	return -EINTR;
}

void op_hold(struct op *op, struct completion *completion)
{
	completion_hold(completion, &op->completion, op_cancelled);
}

void broker_interrupt(struct broker *broker, struct completion *completion)
{
	int r;

	pthread_mutex_lock(&broker->registry->lock);
	__atomic_store_n(&completion->interrupted, true, __ATOMIC_RELAXED);
	while (completion->inner)
		completion = completion->inner;
	r = completion_cancel(completion);
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(NULL);
	if (r <= 0)
		completion->done(completion, r, NULL, 0);
}

/* ---- ops that nobody waits for ---- */

void op_note_unawaited(struct op *op)
{
	if (!op->work.stream || op_class(op)->quiet || op->unawaited || op->left)
		return;
	op->unawaited = true;
	stream_begin_unawaited(op->work.stream);
}

void op_fail_stream(struct op *op)
{
	struct stream *stream = op->work.stream;

	if (!op->error || !stream || op->class->quiet || op->completion || stream->failed)
		return;
	stream_fail(stream, op->error, text_string(&op->sentence));
	journal_event(op->broker->journal, "failed streams/%s errno=%s", stream->name,
		      strerrorname_np(op->error));
}
