/* SPDX-License-Identifier: MIT */
/*
 * Attaches managed memory to all streams, to the host alone, or to one stream.
 *
 * A stream with attached memory can't be removed: CUDA would silently undo the
 * attachment. On devices without concurrent managed access, the GPU can't use memory
 * attached to the host, and other streams can't use memory attached to one stream.
 * `data`, copies and fills would then break the rules, so such devices only allow
 * `global`.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/refusal.h"
#include "control/command.h"
#include "control/line.h"
#include "control/verbs.h"
#include "memops/permissions.h"
#include "memops/placement.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/stream.h"
#include "process/broker.h"

static const char *const attach_names[] = {
	[ATTACH_GLOBAL] = "global",
	[ATTACH_HOST] = "host",
	[ATTACH_SINGLE] = "single",
};

int line_attach(const char *word, unsigned int most, uint8_t *ret_attach,
		struct refusal *refusal)
{
	for (unsigned int i = 0; i <= most; i++) {
		if (strcmp(word, attach_names[i]) == 0) {
			*ret_attach = (uint8_t)i;
			return 0;
		}
	}
	return refuse(refusal, EINVAL, "'%.64s' is not one of global, host%s", word,
		      most == ATTACH_SINGLE ? ", single" : "");
}

int attach_check(const struct broker *broker, uint32_t device, uint8_t attach,
		 struct refusal *refusal)
{
	char what[32];

	if (attach == ATTACH_GLOBAL)
		return 0;
	snprintf(what, sizeof(what), "attach to %s",
		 attach == ATTACH_HOST ? "the host alone" : "a single stream");
	return managed_check_concurrent(broker, device, what, refusal);
}

void text_attach(struct text *text, const struct allocation *allocation)
{
	text_printf(text, "%s", attach_names[allocation->managed->attach]);
}

/* ---- the op ---- */

struct attach {
	struct op op;
	uint8_t attach;
};

static enum begun attach_begin(struct op *op)
{
	static const uint32_t flags[] = {
		[ATTACH_GLOBAL] = 0,
		[ATTACH_HOST] = WIRE_ATTACH_HOST,
		[ATTACH_SINGLE] = WIRE_ATTACH_STREAM,
	};
	const struct allocation *allocation = op->work.uses[0].allocation;

	op->request.record = (struct wire_request){
		.op = WIRE_ATTACH,
		.flags = flags[container_of(op, struct attach, op)->attach],
		.device = op->work.stream ? op->work.stream->device : allocation->device,
		.address = allocation->address,
	};
	return OP_RUN;
}

static void attach_settle(struct op *op)
{
	struct allocation *allocation = op->work.uses[0].allocation;
	uint8_t attach = container_of(op, struct attach, op)->attach;

	if (op->error)
		return;
	allocation->managed->attach = attach;
	allocation_set_stream(allocation,
			      attach == ATTACH_SINGLE ? op->work.stream : NULL);
}

static const struct op_class attach_class = {
	.what = "attachment",
	.begin = attach_begin,
	.settle = attach_settle,
	.may_use = guest_may_ask,
	.repeatable = true,
};

/* ---- the verb ---- */

/* The stream to attach to, or to run on; *ret_stream NULL: any. As command_find(). */
static int attach_stream(struct command *command, const struct allocation *allocation,
			 uint8_t attach, struct stream **ret_stream)
{
	struct registry *registry = command->broker->registry;
	const char *name = line_value(&command->line, "stream");
	const struct stream *named =
		name ? stream_find_named(command->broker->registry, name, command->caller)
		     : NULL;
	unsigned int uid, owner = allocation->owner->uid;

	*ret_stream = NULL;
	if (!name && attach != ATTACH_SINGLE)
		return 0;
	*ret_stream =
		command_stream(command, name, named ? named->device : allocation->device);
	if (!*ret_stream)
		return -ENOENT;
	if ((*ret_stream)->owner == allocation->owner)
		return 0;
	uid = (*ret_stream)->owner->uid;
	pthread_mutex_unlock(&registry->lock);
	command_fail(command, EXDEV, "stream %s belongs to uid %u, the memory to uid %u",
		     name ? name : "default", uid, owner);
	return -EXDEV;
}

static void attach_start(struct command *command, struct allocation *allocation,
			 uint8_t attach, bool wait)
{
	struct broker *broker = command->broker;
	struct stream *stream;
	struct op *op;

	if (attach_stream(command, allocation, attach, &stream) < 0)
		return;
	op = op_new(sizeof(struct attach), &attach_class, broker, allocation->owner);
	if (op) {
		container_of(op, struct attach, op)->attach = attach;
		op->finish = command_finish_op;
		op->worker = worker_of(broker, allocation->owner);
		op->work.stream = stream;
		work_use(&op->work, allocation, 0, allocation->size, true);
		if (!op->worker)
			op = op_free(op);
	}
	command_run_op(command, op, wait);
}

void verb_attach(struct command *command)
{
	struct registry *registry = command->broker->registry;
	struct allocation *allocation;
	struct refusal refusal;
	uint8_t attach = 0;
	bool wait = true;
	int r;

	if (command_parse(command) < 0)
		return;
	r = line_attach(command->line.operands[0], ATTACH_SINGLE, &attach, &refusal);
	if (r == 0)
		r = line_wait(line_value(&command->line, "wait"), &wait, &refusal);
	if (r < 0) {
		command_refuse(command, &refusal);
		return;
	}
	pthread_mutex_lock(&registry->lock);
	allocation = command_find_own(command, NULL, ACCESS_WRITE);
	if (!allocation)
		return;
	if (attach_check(command->broker, allocation->device, attach, &refusal) < 0) {
		pthread_mutex_unlock(&registry->lock);
		command_refuse(command, &refusal);
		return;
	}
	attach_start(command, allocation, attach, wait);
}

/* Shows the last attachment: CUDA has no query for it. */
void state_attach(struct broker *broker, struct token token, const struct caller *caller,
		  struct completion *wait)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	const struct allocation *allocation;

	(void)caller;
	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	if (allocation)
		text_attach(&text, allocation);
	pthread_mutex_unlock(&broker->registry->lock);
	text_add(&text, "\n", 1);
	wait->done(wait, allocation ? 0 : -ESTALE, text.data, text.length);
}
