/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>

#include "base/number.h"
#include "base/refusal.h"
#include "control/command.h"
#include "control/line.h"
#include "control/verbs.h"
#include "memops/copy.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/object.h"
#include "model/range.h"
#include "model/registry.h"
#include "model/stream.h"
#include "op/op.h"
#include "process/broker.h"

struct copy_line {
	struct full_name target, source;
	struct range to, from;
	bool whole; /* without length= */
	bool wait;
};

static int copy_parse(struct command *command, struct copy_line *line,
		      struct refusal *refusal)
{
	const struct line *words = &command->line;
	const char *from = line_value(words, "from");
	const char *length = line_value(words, "length");
	int r;

	if (!from)
		return refuse(refusal, EINVAL, "from=SRC is missing");
	r = line_place(words->operands[0], &line->target, &line->to, refusal);
	if (r < 0)
		return r;
	r = line_place(from, &line->source, &line->from, refusal);
	if (r < 0)
		return r;
	line->whole = !length;
	if (!line->whole) {
		r = line_range(NULL, length, &line->from, refusal);
		if (r < 0)
			return r;
	}
	return line_wait(line_value(words, "wait"), &line->wait, refusal);
}

/* Without length= the sentence names the length that would fit. */
static int copy_refuse_size(const struct copy_line *line, const struct allocation *target,
			    const struct allocation *source, struct refusal *refusal)
{
	uint64_t left = target->size - line->to.offset;
	const char *rest = line->to.offset ? "the rest of " : "";

	if (!line->whole)
		return refuse(refusal, ERANGE, "%s%s (%s) has no room for %s", rest,
			      allocation_name(target).text, size_text(left),
			      size_text(line->from.length));
	return refuse(refusal, ERANGE,
		      "%s%s (%s) does not fit into %s%s (%s): length=%s copies a part",
		      line->from.offset ? "the rest of " : "",
		      allocation_name(source).text, size_text(line->from.length), rest,
		      allocation_name(target).text, size_text(left), size_typed(left));
}

/*
 * Without length= the copy has all bytes of the source from its offset on, and they must
 * fit.
 */
static int copy_fit(struct copy_line *line, const struct allocation *target,
		    const struct allocation *source, struct refusal *refusal)
{
	int r;

	r = range_fit(&line->from, source, refusal);
	if (r < 0)
		return r;
	line->to.length = line->from.length;
	line->to.has_length = true;
	r = range_fit(&line->to, target, refusal);
	if (r == -ERANGE && line->to.offset < target->size)
		return copy_refuse_size(line, target, source, refusal);
	if (r < 0)
		return r;
	if (target == source && line->to.offset < line->from.offset + line->from.length &&
	    line->from.offset < line->to.offset + line->to.length)
		return refuse(refusal, EINVAL,
			      "the ranges of %s overlap: %s at offset %s and at %s",
			      allocation_name(target).text, size_text(line->to.length),
			      size_typed(line->from.offset), size_typed(line->to.offset));
	return 0;
}

void verb_copy(struct command *command)
{
	struct registry *registry = command->broker->registry;
	struct allocation *target, *source;
	struct copy_line line = { 0 };
	struct refusal refusal;
	struct stream *stream;
	struct op *op;

	if (command_parse(command) < 0)
		return;
	if (copy_parse(command, &line, &refusal) < 0) {
		command_refuse(command, &refusal);
		return;
	}
	pthread_mutex_lock(&registry->lock);
	target = command_find(command, line.target.text, "id", ACCESS_WRITE);
	if (!target || !command_may_write(command, target))
		return;
	source = command_find(command, line.source.text, "from_id", ACCESS_READ);
	if (!source)
		return;
	if (copy_fit(&line, target, source, &refusal) < 0) {
		pthread_mutex_unlock(&registry->lock);
		command_refuse(command, &refusal);
		return;
	}
	stream = command_stream(command, line_value(&command->line, "stream"),
				target->device);
	if (!stream)
		return;
	op = copy_op_new(command->broker, stream->owner, target, line.to.offset, source,
			 line.from.offset, line.from.length, command_finish_op);
	if (op)
		op->work.stream = stream;
	allocation_written(target);
	command_run_op(command, op, line.wait);
}
