/* SPDX-License-Identifier: MIT */
/* The lines of prefetch and advise, for managed memory. */
#include <errno.h>
#include <string.h>

#include "base/refusal.h"
#include "control/command.h"
#include "control/line.h"
#include "control/verbs.h"
#include "cuda/driver.h"
#include "memops/placement.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/location.h"
#include "model/owner.h"
#include "model/range.h"
#include "model/registry.h"
#include "model/stream.h"
#include "process/broker.h"

/* The location that a line names. */
enum about { ABOUT_NOTHING, ABOUT_PLACE, ABOUT_PROCESSOR };

struct placement {
	const char *name;
	enum about about;
	enum managed_change change;
	uint16_t value; /* for ABOUT_NOTHING */
};

static const struct placement prefetch = { "prefetch", ABOUT_PLACE, MANAGED_PREFETCHED };

static const struct placement advices[N_WIRE_ADVICES] = {
	[WIRE_SET_READ_MOSTLY] = { "set_read_mostly", ABOUT_NOTHING, MANAGED_READ_MOSTLY,
				   1 },
	[WIRE_UNSET_READ_MOSTLY] = { "unset_read_mostly", ABOUT_NOTHING,
				     MANAGED_READ_MOSTLY, 0 },
	[WIRE_SET_PREFERRED_LOCATION] = { "set_preferred_location", ABOUT_PLACE,
					  MANAGED_PREFERRED },
	[WIRE_UNSET_PREFERRED_LOCATION] = { "unset_preferred_location", ABOUT_NOTHING,
					    MANAGED_PREFERRED, LOCATION_NONE },
	[WIRE_SET_ACCESSED_BY] = { "set_accessed_by", ABOUT_PROCESSOR,
				   MANAGED_ACCESSED_BY },
	[WIRE_UNSET_ACCESSED_BY] = { "unset_accessed_by", ABOUT_PROCESSOR,
				     MANAGED_UNACCESSED_BY },
};

/* A line of either verb. */
struct placement_line {
	const struct placement *placement;
	const char *name; /* NULL in the allocation's own file */
	uint16_t location;
	struct range range;
	bool wait;
};

/* ---- parsing ---- */

static int parse_advice(const char *word, struct placement_line *line,
			struct refusal *refusal)
{
	for (uint32_t i = 1; i < N_WIRE_ADVICES; i++) {
		if (strcmp(advices[i].name, word) == 0) {
			line->placement = &advices[i];
			return 0;
		}
	}
	return refuse(refusal, EINVAL,
		      "'%.64s' is not an advice: use set_read_mostly, "
		      "set_preferred_location, set_accessed_by or the same with unset_",
		      word);
}

static int parse_location(const char *word, struct placement_line *line,
			  struct refusal *refusal)
{
	const char *name = line->placement->name;
	enum about about = line->placement->about;
	int r;

	if (!word)
		return about == ABOUT_NOTHING
			       ? 0
			       : refuse(refusal, EINVAL, "%s needs a location: %s", name,
					about == ABOUT_PLACE ? "cpu, numa:N or device:N"
							     : "cpu or device:N");
	if (about == ABOUT_NOTHING)
		return refuse(refusal, EINVAL, "%s takes no location, not '%.64s'", name,
			      word);
	r = line_location(word, &line->location, refusal);
	if (r == 0 && about == ABOUT_PROCESSOR &&
	    location_place(line->location) == LOCATION_NUMA)
		return refuse(refusal, EINVAL, "%s takes cpu or device:N, not '%s'", name,
			      word);
	return r;
}

/* line->placement: prefetch, or NULL for an advice. */
static int parse_placement(const struct command *command, struct placement_line *line,
			   struct refusal *refusal)
{
	const struct line *words = &command->line;
	const char *const *operands = words->operands;
	int r = 0;

	if (!command->token.generation)
		line->name = *operands++;
	if (!line->placement)
		r = parse_advice(*operands++, line, refusal);
	if (r == 0)
		r = parse_location(*operands, line, refusal);
	if (r == 0)
		r = line_range(line_value(words, "offset"), line_value(words, "length"),
			       &line->range, refusal);
	if (r == 0)
		r = line_wait(line_value(words, "wait"), &line->wait, refusal);
	return r;
}

/* ---- starting ---- */

/*
 * The named stream, on any device, else the caller's default stream of the device. As
 * command_find().
 */
static struct stream *placement_stream(struct command *command, uint32_t device)
{
	const char *name = line_value(&command->line, "stream");
	const struct stream *named = NULL;

	if (name)
		named = stream_find_named(command->broker->registry, name,
					  command->caller);
	return command_stream(command, name, named ? named->device : device);
}

/* Releases registry.lock and refuses. */
static void placement_refuse(struct command *command, const struct refusal *refusal)
{
	pthread_mutex_unlock(&command->broker->registry->lock);
	command_refuse(command, refusal);
}

static void placement_run(struct command *command, const struct placement_line *line,
			  struct placing *placing)
{
	const struct placement *placement = line->placement;

	if (placing) {
		placing->location = line->location;
		placing->change = placement->change;
		placing->value = placement->about == ABOUT_NOTHING ? placement->value
								   : line->location;
	}
	command_run_op(command, placing ? &placing->op : NULL, line->wait);
}

static void prefetch_start(struct command *command, const struct placement_line *line,
			   struct allocation *allocation, uint32_t device)
{
	struct stream *stream = placement_stream(command, device);
	struct placing *placing;
	struct refusal refusal;

	if (!stream)
		return;
	/* A prefetch away from a device is work of that device. */
	if (managed_check_concurrent(command->broker, stream->device, "prefetch",
				     &refusal) < 0) {
		placement_refuse(command, &refusal);
		return;
	}
	placing = placing_new(command->broker, &prefetch_class, stream->owner, allocation,
			      &line->range, command_finish_op);
	if (placing) {
		placing->wire_op = WIRE_PREFETCH;
		placing->device = stream->device;
		placing->op.work.stream = stream;
	}
	placement_run(command, line, placing);
}

/* Advice about a device needs the device's context to take effect. */
static void advise_start(struct command *command, const struct placement_line *line,
			 struct allocation *allocation, uint32_t device)
{
	struct placing *placing = NULL;
	struct owner *owner;

	owner = owner_get(command->broker->registry, command->caller->uid,
			  command->caller->gid);
	if (owner)
		placing = placing_new(command->broker, &advise_class, owner, allocation,
				      &line->range, command_finish_op);
	if (placing) {
		placing->wire_op = WIRE_ADVISE;
		placing->device = device;
		placing->advice = (uint32_t)(line->placement - advices);
	}
	placement_run(command, line, placing);
}

static void place(struct command *command, const struct placement *placement, int call)
{
	struct placement_line line = { .placement = placement };
	struct allocation *allocation;
	struct refusal refusal;
	uint32_t device;

	if (command_parse(command) < 0)
		return;
	if (parse_placement(command, &line, &refusal) < 0) {
		command_refuse(command, &refusal);
		return;
	}
	pthread_mutex_lock(&command->broker->registry->lock);
	allocation = command_find_own(command, line.name, ACCESS_WRITE);
	if (!allocation)
		return;
	if (managed_check(command->broker, allocation, line.location, call,
			  line.placement->name, &line.range, &refusal) < 0) {
		placement_refuse(command, &refusal);
		return;
	}
	device = location_device(line.location, allocation->device);
	if (placement == &prefetch)
		prefetch_start(command, &line, allocation, device);
	else
		advise_start(command, &line, allocation, device);
}

void verb_prefetch(struct command *command)
{
	place(command, &prefetch, CUDA_ROW(cuMemPrefetchAsync_v2));
}

void verb_advise(struct command *command)
{
	place(command, NULL, CUDA_ROW(cuMemAdvise_v2));
}
