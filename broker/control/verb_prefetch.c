/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "memops/placement.h"
#include "model/location.h"

enum { PREFETCH_OFFSET, PREFETCH_LENGTH, PREFETCH_STREAM, PREFETCH_WAIT };

static const char *const prefetch_keys[] = { "offset", "length", "stream", "wait", NULL };

static const struct grammar prefetch_grammar = {
	.operands = (const char *const[]){ "NAME", "LOCATION", NULL },
	.keys = prefetch_keys,
};

static const struct grammar own_prefetch_grammar = {
	.operands = (const char *const[]){ "LOCATION", NULL },
	.keys = prefetch_keys,
};

struct prefetch_line {
	const char *name;
	uint16_t location;
	struct range range;
	bool wait;
};

static int prefetch_parse(const struct command *command, struct prefetch_line *line,
			  struct refusal *refusal)
{
	const char *const *operands = managed_operands(command, &line->name);
	const char *const *values = command->line.values;
	int r;

	r = line_location(operands[0], &line->location, refusal);
	if (r == 0)
		r = line_range(values[PREFETCH_OFFSET], values[PREFETCH_LENGTH],
			       &line->range, refusal);
	if (r == 0)
		r = line_wait(values[PREFETCH_WAIT], &line->wait, refusal);
	return r;
}

/*
 * The stream that a line names, whatever its device is, else the caller's own of device.
 * As command_find().
 */
static struct stream *managed_stream(struct command *command, const char *name,
				     uint32_t device)
{
	const struct stream *named = NULL;

	if (name)
		named = stream_find_named(&command->broker->registry, name,
					  command->caller);
	return command_stream(command, name, named ? named->device : device);
}

/* With registry.lock held and all looked at. */
static void prefetch_start(struct command *command, const struct prefetch_line *line,
			   struct allocation *allocation)
{
	struct broker *broker = command->broker;
	struct placing *placing;
	struct refusal refusal;
	struct stream *stream;

	stream = managed_stream(command, command->line.values[PREFETCH_STREAM],
				location_device(line->location, allocation->device));
	if (!stream)
		return;
	/* Away from a device it is that device's work. */
	if (managed_check_concurrent(broker, stream->device, "prefetch", &refusal) < 0) {
		managed_refuse(command, &refusal);
		return;
	}
	placing = placing_new(broker, &prefetch_class, stream->owner, allocation,
			      &line->range);
	if (placing) {
		placing->wire_op = WIRE_PREFETCH;
		placing->device = stream->device;
		placing->location = placing->value = line->location;
		placing->change = MANAGED_PREFETCHED;
		placing->op.work.stream = stream;
	}
	command_run_op(command, placing ? &placing->op : NULL, line->wait);
}

void verb_prefetch(struct command *command)
{
	struct prefetch_line line = { 0 };
	struct allocation *allocation;
	struct refusal refusal;

	if (command_parse(command, command->token.generation ? &own_prefetch_grammar
							     : &prefetch_grammar) < 0)
		return;
	if (prefetch_parse(command, &line, &refusal) < 0) {
		command_refuse(command, &refusal);
		return;
	}
	pthread_mutex_lock(&command->broker->registry.lock);
	allocation = command_find_own(command, line.name, ACCESS_WRITE);
	if (!allocation)
		return;
	if (managed_check(command->broker, allocation, line.location,
			  CUDA_ROW(cuMemPrefetchAsync_v2), "prefetch", &line.range,
			  &refusal) < 0)
		managed_refuse(command, &refusal);
	else
		prefetch_start(command, &line, allocation);
}
