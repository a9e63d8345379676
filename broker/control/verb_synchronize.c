/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/def.h"
#include "base/handle_table.h"
#include "base/text.h"
#include "control/command.h"
#include "control/verbs.h"
#include "model/access.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/stream.h"
#include "op/op.h"
#include "process/broker.h"

struct synchronize {
	struct op op;
	int failed; /* errno of the stream's first failure */
	char *failure;
};

/* Takes the failure from the stream, to report it once. */
static void synchronize_settle(struct op *op)
{
	struct synchronize *synchronize = container_of(op, struct synchronize, op);
	struct stream *stream = op->work.stream;

	if (!op->completion)
		return;
	synchronize->failed = stream_take_failure(stream, &synchronize->failure);
}

static void synchronize_finish(struct op *op)
{
	struct synchronize *synchronize = container_of(op, struct synchronize, op);

	op->error = synchronize->failed;
	text_printf(&op->sentence, "%s",
		    synchronize->failure ? synchronize->failure
					 : "no memory in the broker");
	free(synchronize->failure);
	command_finish_op(op);
}

static const struct op_class synchronize_class = {
	.what = "synchronize",
	.begin = op_begin_nothing,
	.settle = synchronize_settle,
};

/* The stream named by the line or the file. As command_find(). */
static struct stream *synchronize_stream(struct command *command)
{
	struct registry *registry = command->broker->registry;
	struct stream *stream;
	unsigned int uid;

	if (!command->token.generation) {
		const char *name = command->line.operands[0];

		stream = stream_find(registry, name)
				 ?: stream_find_default(registry, name, command->caller);
		if (!stream) {
			pthread_mutex_unlock(&registry->lock);
			command_fail(command, ENOENT, "there is no stream %s", name);
			return NULL;
		}
	} else {
		stream = handle_table_get(&registry->streams, command->token.slot,
					  command->token.generation);
	}
	if (!stream) {
		pthread_mutex_unlock(&registry->lock);
		command_fail(command, ESTALE, "the stream has been removed");
		return NULL;
	}
	if (command->caller->uid == 0 || command->caller->uid == stream->owner->uid)
		return stream;
	uid = stream->owner->uid;
	pthread_mutex_unlock(&registry->lock);
	command_fail(command, EPERM, "the stream belongs to uid %u, not to uid %u", uid,
		     command->caller->uid);
	return NULL;
}

void verb_synchronize(struct command *command)
{
	struct stream *stream;
	struct op *op;

	if (command_parse(command) < 0)
		return;
	pthread_mutex_lock(&command->broker->registry->lock);
	stream = synchronize_stream(command);
	if (!stream)
		return;
	op = op_new(sizeof(struct synchronize), &synchronize_class, command->broker,
		    stream->owner);
	if (op) {
		op->finish = synchronize_finish;
		op->work.stream = stream;
	}
	command_run_op(command, op, true);
}
