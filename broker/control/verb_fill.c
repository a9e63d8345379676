/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/number.h"
#include "base/refusal.h"
#include "control/command.h"
#include "control/line.h"
#include "control/verbs.h"
#include "memops/fill.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/range.h"
#include "model/registry.h"
#include "model/stream.h"
#include "op/op.h"
#include "process/broker.h"

struct fill_line {
	uint64_t pattern;
	uint32_t pattern_size;
	struct range range;
	bool wait;
};

/* `hex:BYTES`: 1, 2, 4 or 8 bytes, in memory order. */
static int fill_parse_hex(const char *value, struct fill_line *line,
			  struct refusal *refusal)
{
	const char *digits = value + strlen("hex:");
	size_t length = strlen(digits);

	if (strspn(digits, "0123456789abcdefABCDEF") != length ||
	    (length != 2 && length != 4 && length != 8 && length != 16))
		return refuse(refusal, EINVAL,
			      "'%.64s' is not 1, 2, 4 or 8 bytes, such as hex:00ff",
			      value);
	line->pattern = 0;
	line->pattern_size = (uint32_t)(length / 2);
	for (size_t i = 0; i < length; i += 2) {
		char byte[3] = { digits[i], digits[i + 1] };

		line->pattern |= (uint64_t)strtoul(byte, NULL, 16) << (4 * i);
	}
	return 0;
}

static int fill_parse_value(const char *value, struct fill_line *line,
			    struct refusal *refusal)
{
	struct scalar scalar;
	int r;

	if (strncmp(value, "hex:", 4) == 0)
		return fill_parse_hex(value, line, refusal);
	r = line_scalar(value, &scalar, refusal);
	if (r < 0)
		return r;
	line->pattern = scalar.bits;
	line->pattern_size = (uint32_t)scalar_size(scalar.type);
	return 0;
}

static int fill_parse(struct command *command, struct fill_line *line,
		      struct refusal *refusal)
{
	const char *value = command->line.operands[1];
	int r;

	r = line_full_name(command->line.operands[0], "allocation", refusal);
	if (r < 0)
		return r;
	r = fill_parse_value(value, line, refusal);
	if (r < 0)
		return r;
	r = line_range(line_value(&command->line, "offset"),
		       line_value(&command->line, "length"), &line->range, refusal);
	if (r < 0)
		return r;
	return line_wait(line_value(&command->line, "wait"), &line->wait, refusal);
}

static int fill_check_unit(const struct fill_line *line, const char *value,
			   struct refusal *refusal)
{
	const struct range *range = &line->range;
	const char *type = scalar_type_of(value) ?: value;
	uint32_t unit = line->pattern_size;
	bool at = range->offset % unit;

	if (!at && range->length % unit == 0)
		return 0;
	if (at || range->has_length)
		return refuse(refusal, EINVAL,
			      "%s=%llu is not a multiple of %u, the size of %s",
			      at ? "offset" : "length",
			      (unsigned long long)(at ? range->offset : range->length),
			      unit, type);
	return refuse(refusal, EINVAL,
		      "the fill has %llu bytes, not a multiple of %u, the size of %s: "
		      "length= fills a part",
		      (unsigned long long)range->length, unit, type);
}

void verb_fill(struct command *command)
{
	struct registry *registry = command->broker->registry;
	struct allocation *allocation;
	struct fill_line line = { 0 };
	struct refusal refusal;
	struct stream *stream;
	struct op *op;

	if (command_parse(command) < 0)
		return;
	if (fill_parse(command, &line, &refusal) < 0) {
		command_refuse(command, &refusal);
		return;
	}
	pthread_mutex_lock(&registry->lock);
	allocation = command_find(command, command->line.operands[0], "id", ACCESS_WRITE);
	if (!allocation || !command_may_write(command, allocation))
		return;
	if (range_fit(&line.range, allocation, &refusal) < 0 ||
	    fill_check_unit(&line, command->line.operands[1], &refusal) < 0) {
		pthread_mutex_unlock(&registry->lock);
		command_refuse(command, &refusal);
		return;
	}
	stream = command_stream(command, line_value(&command->line, "stream"),
				allocation->device);
	if (!stream)
		return;
	op = fill_op_new(command->broker, stream->owner, allocation, line.range.offset,
			 line.range.length, line.pattern, line.pattern_size, false,
			 command_finish_op);
	if (op)
		op->work.stream = stream;
	allocation_written(allocation);
	command_run_op(command, op, line.wait);
}
