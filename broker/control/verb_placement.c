/* SPDX-License-Identifier: MIT */
/* The lines of prefetch and advise, for managed memory. */
#include <errno.h>
#include <string.h>

#include "control/verbs.h"
#include "memops/placement.h"
#include "model/access.h"
#include "model/location.h"

/* The operands after the name; NULL as the name in the allocation's own file. */
static const char *const *managed_operands(const struct command *command,
					   const char **ret_name)
{
	if (command->token.generation) {
		*ret_name = NULL;
		return command->line.operands;
	}
	*ret_name = command->line.operands[0];
	return command->line.operands + 1;
}

/* Releases registry.lock and refuses. */
static void managed_refuse(struct command *command, const struct refusal *refusal)
{
	pthread_mutex_unlock(&command->broker->registry.lock);
	command_refuse(command, refusal);
}

/* ---- prefetch ---- */

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
 * The named stream, on any device, else the caller's default stream of the device. As
 * command_find().
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

/* With registry.lock held, after all checks. */
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
	/* A prefetch away from a device is work of that device. */
	if (managed_check_concurrent(broker, stream->device, "prefetch", &refusal) < 0) {
		managed_refuse(command, &refusal);
		return;
	}
	placing = placing_new(broker, &prefetch_class, stream->owner, allocation,
			      &line->range, command_finish_op);
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

/* ---- advise ---- */

/* The object of each advice. */
enum about { ABOUT_NOTHING, ABOUT_PLACE, ABOUT_PROCESSOR };

static const struct {
	const char *name;
	enum about about;
	enum managed_change change;
	uint16_t value; /* value for ABOUT_NOTHING */
} advices[N_WIRE_ADVICES] = {
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

enum { ADVISE_OFFSET, ADVISE_LENGTH };

static const char *const advise_keys[] = { "offset", "length", NULL };

static const struct grammar advise_grammar = {
	.operands = (const char *const[]){ "NAME", "ADVICE", "LOCATION", NULL },
	.n_optional = 1,
	.keys = advise_keys,
};

static const struct grammar own_advise_grammar = {
	.operands = (const char *const[]){ "ADVICE", "LOCATION", NULL },
	.n_optional = 1,
	.keys = advise_keys,
};

struct advise_line {
	const char *name;
	uint32_t advice;
	uint16_t location;
	struct range range;
};

static int advise_parse_advice(const char *word, uint32_t *ret_advice,
			       struct refusal *refusal)
{
	for (uint32_t i = 1; i < N_WIRE_ADVICES; i++) {
		if (strcmp(advices[i].name, word) == 0) {
			*ret_advice = i;
			return 0;
		}
	}
	return refuse(refusal, EINVAL,
		      "'%.64s' is not an advice: use set_read_mostly, "
		      "set_preferred_location, set_accessed_by or the same with unset_",
		      word);
}

static int advise_parse_location(const char *word, struct advise_line *line,
				 struct refusal *refusal)
{
	const char *name = advices[line->advice].name;
	enum about about = advices[line->advice].about;
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

static int advise_parse(const struct command *command, struct advise_line *line,
			struct refusal *refusal)
{
	const char *const *operands = managed_operands(command, &line->name);
	const char *const *values = command->line.values;
	int r;

	r = advise_parse_advice(operands[0], &line->advice, refusal);
	if (r == 0)
		r = advise_parse_location(operands[1], line, refusal);
	if (r == 0)
		r = line_range(values[ADVISE_OFFSET], values[ADVISE_LENGTH], &line->range,
			       refusal);
	return r;
}

static void advise_start(struct command *command, const struct advise_line *line,
			 struct allocation *allocation)
{
	struct broker *broker = command->broker;
	struct placing *placing = NULL;
	struct owner *owner;

	owner = owner_get(&broker->registry, command->caller->uid, command->caller->gid);
	if (owner)
		placing = placing_new(broker, &advise_class, owner, allocation,
				      &line->range, command_finish_op);
	if (placing) {
		placing->wire_op = WIRE_ADVISE;
		/* Advice about a device needs the device's context to take effect. */
		placing->device = location_device(line->location, allocation->device);
		placing->advice = line->advice;
		placing->location = line->location;
		placing->change = advices[line->advice].change;
		placing->value = advices[line->advice].about == ABOUT_NOTHING
					 ? advices[line->advice].value
					 : line->location;
	}
	command_run_op(command, placing ? &placing->op : NULL, true);
}

void verb_advise(struct command *command)
{
	struct advise_line line = { 0 };
	struct allocation *allocation;
	struct refusal refusal;

	if (command_parse(command, command->token.generation ? &own_advise_grammar
							     : &advise_grammar) < 0)
		return;
	if (advise_parse(command, &line, &refusal) < 0) {
		command_refuse(command, &refusal);
		return;
	}
	pthread_mutex_lock(&command->broker->registry.lock);
	allocation = command_find_own(command, line.name, ACCESS_WRITE);
	if (!allocation)
		return;
	if (managed_check(command->broker, allocation, line.location,
			  CUDA_ROW(cuMemAdvise_v2), advices[line.advice].name,
			  &line.range, &refusal) < 0)
		managed_refuse(command, &refusal);
	else
		advise_start(command, &line, allocation);
}
