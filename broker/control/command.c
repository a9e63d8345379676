/* SPDX-License-Identifier: MIT */
#include "control/command.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/process.h"
#include "base/refusal.h"
#include "control/verb.h"
#include "model/access.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "model/stream.h"
#include "op/op.h"
#include "process/broker.h"

void command_done(struct command *command, int error)
{
	command->done(command, error);
}

void command_file(const struct command *command, struct text *file)
{
	enum object_type type = command->verb->object;
	const struct freed *freed = NULL;

	if (type == OBJECT_ALLOCATION)
		freed = registry_find_freed(command->broker->registry, command->token);
	if (!command->token.generation)
		text_printf(file, "control");
	else if (!object_path(command->broker->registry, type, command->token, file))
		text_printf(file, "%s/%s", object_folder(type), freed_name(freed));
	text_printf(file, "/%s", command->verb->name);
}

void command_fail(struct command *command, int error, const char *format, ...)
{
	struct broker *broker = command->broker;
	_cleanup_text_ struct text file = TEXT_INIT;
	char sentence[2048];
	size_t length = 0;
	va_list args;

	if (command->line_number)
		length = (size_t)snprintf(sentence, sizeof(sentence),
					  "line %u: ", command->line_number);
	va_start(args, format);
	(void)vsnprintf(sentence + length, sizeof(sentence) - length, format, args);
	va_end(args);

	pthread_mutex_lock(&broker->registry->lock);
	command_file(command, &file);
	pthread_mutex_unlock(&broker->registry->lock);
	journal_fail(broker->journal, command->caller->uid, command->pid,
		     text_string(&file), error, sentence);
	text_clear(&command->answer);
	text_add_printable(&command->answer, sentence);
	text_add(&command->answer, "\n", 1);
	command_done(command, error);
}

void command_completed(struct completion *completion, int error, const void *sentence,
		       size_t length)
{
	struct command *command = container_of(completion, struct command, completion);

	(void)length;
	if (sentence)
		command_fail(command, -error, "%s", (const char *)sentence);
	else
		command_done(command, -error);
}

void command_refuse(struct command *command, const struct refusal *refusal)
{
	command_fail(command, refusal->error, "%s", refusal->sentence);
}

void command_put_off(struct command *command, enum user_lane lane)
{
	line_deinit(&command->line);
	command->put_off = true;
	command->lane = lane;
}

int command_parse(struct command *command)
{
	struct refusal refusal;
	int r;

	r = line_parse(&command->line, command->bytes, command->length,
		       verb_usage(command->verb, command->token), &refusal);
	if (r < 0)
		command_refuse(command, &refusal);
	return r;
}

void command_forget_cgroup(struct command *command)
{
	free(take_ptr(command->cgroup));
	command->cgroup_asked = false;
}

bool command_writer_lives(const struct command *command)
{
	struct process_identity now;

	if (!command->writer_left)
		return true;
	now = process_identity(command->pid);
	return now.process && now.process == command->writer.process &&
	       now.uid == command->writer.uid;
}

const char *command_cgroup(struct command *command, bool again)
{
	char path[CGROUP_PATH_MAX];

	if (again)
		command_forget_cgroup(command);
	if (!command->cgroup_asked && cgroup_of(command->pid, path) == 0 &&
	    command_writer_lives(command))
		command->cgroup = strdup(path);
	command->cgroup_asked = true;
	return command->cgroup;
}

/* ---- ops of commands ---- */

/* After a signal most ops go on, and the line succeeds as with wait=0. */
static int command_let_go(struct completion **holder)
{
	struct op *op = container_of(holder, struct op, completion);

	int r = op_class(op)->begin == op_begin_nothing ? -EINTR : 0;

	if (op_class(op)->interrupted)
		r = op_class(op)->interrupted(op);
	if (r == 0)
		op_note_unawaited(op);
	return r;
}

void command_run_op(struct command *command, struct op *op, bool wait)
{
	struct broker *broker = command->broker;
	_cleanup_text_ struct text sentence = TEXT_INIT;
	struct op *ready = NULL;
	int r;

	if (op)
		op_charge(op, command->caller);
	r = op ? op_add(op, &ready) : -ENOMEM;
	if (share_is_refusal(r))
		share_explain(op->payer, &sentence);
	if (r == 0) {
		command->completion.began = true;
		if (op->work.stream)
			stream_note_use(op->work.stream);
	}
	if (r == 0 && wait)
		completion_hold(&command->completion, &op->completion, command_let_go);
	if (r == 0 && !wait)
		op_note_unawaited(op);
	if (r == 0 && !wait && op->class->answer)
		op->class->answer(op, &command->answer, false);
	pthread_mutex_unlock(&broker->registry->lock);

	op_start(ready);
	if (r == 0 && !wait)
		command_done(command, 0);
	if (r < 0 && op && op->class->leave)
		op->class->leave(op);
	if (r < 0)
		op_free(op);

	if (sentence.length)
		command_fail(command, -r, "%s", text_string(&sentence));
	else if (r == -ESTALE)
		command_fail(command, ESTALE, "the broker is shutting down");
	else if (r < 0)
		command_fail(command, -r, "no memory in the broker");
}

void command_finish_op(struct op *op)
{
	struct command *command;

	if (!op->completion)
		return;
	command = container_of(op->completion, struct command, completion);
	if (op->error) {
		command_fail(command, op->error, "%s", text_string(&op->sentence));
		return;
	}
	if (op->class->answer)
		op->class->answer(op, &command->answer, true);
	command_done(command, 0);
}

/* ---- objects named by a command ---- */

static const char *access_word(enum access access)
{
	switch (access) {
	case ACCESS_READ:
		return "read";
	case ACCESS_WRITE:
		return "write";
	case ACCESS_OWN:
		break;
	}
	return "free or change";
}

struct allocation *command_check_access(struct command *command,
					struct allocation *allocation, enum access access)
{
	unsigned int owner = allocation->owner->uid, mode = allocation->mode;
	char name[FULL_NAME_MAX + 1];

	if (caller_may(command->caller, allocation, access))
		return allocation;
	strcpy(name, allocation_name(allocation).text);
	pthread_mutex_unlock(&command->broker->registry->lock);
	command_fail(command, access == ACCESS_OWN ? EPERM : EACCES,
		     "uid %u may not %s allocation %s of uid %u, mode %04o",
		     command->caller->uid, access_word(access), name, owner, mode);
	return NULL;
}

struct allocation *command_find(struct command *command, const char *name,
				const char *key, enum access access)
{
	struct registry *registry = command->broker->registry;
	const char *word = key ? line_value(&command->line, key) : NULL;
	struct allocation *allocation = NULL;
	struct refusal refusal;
	uint64_t id = 0;

	if (!word || line_id(word, key, &id, &refusal) == 0)
		allocation =
			allocation_find_made(registry, name, command->caller, &refusal);
	if (allocation && allocation_check_id(allocation, id, &refusal) == 0)
		return command_check_access(command, allocation, access);
	pthread_mutex_unlock(&registry->lock);
	command_refuse(command, &refusal);
	return NULL;
}

bool command_may_write(struct command *command, const struct allocation *allocation)
{
	struct refusal refusal;

	if (!allocation->sealed)
		return true;
	(void)refuse_sealed(&refusal, allocation);
	pthread_mutex_unlock(&command->broker->registry->lock);
	command_refuse(command, &refusal);
	return false;
}

struct allocation *command_find_own(struct command *command, const char *name,
				    enum access access)
{
	struct registry *registry = command->broker->registry;
	struct allocation *allocation;
	char was[FULL_NAME_MAX + 1];

	if (!command->token.generation)
		return command_find(command, name, "id", access);
	allocation =
		allocation_get(registry, command->token.slot, command->token.generation);
	if (allocation)
		return command_check_access(command, allocation, access);
	strcpy(was, freed_name(registry_find_freed(registry, command->token)));
	pthread_mutex_unlock(&registry->lock);
	command_fail(command, ESTALE, "allocation %s has been freed", was);
	return NULL;
}

struct stream *command_stream(struct command *command, const char *name, uint32_t device)
{
	struct registry *registry = command->broker->registry;
	struct stream *stream;
	struct owner *owner;
	unsigned int uid;

	if (!name || strcmp(name, "default") == 0) {
		owner = owner_get(registry, command->caller->uid, command->caller->gid);
		stream = owner ? owner_default_stream(registry, owner, device) : NULL;
		if (stream)
			return stream;
		pthread_mutex_unlock(&registry->lock);
		command_fail(command, ENOMEM, "no memory in the broker");
		return NULL;
	}

	stream = stream_find_named(command->broker->registry, name, command->caller);
	if (!stream) {
		pthread_mutex_unlock(&registry->lock);
		command_fail(command, ENOENT, "there is no stream %s", name);
		return NULL;
	}
	uid = stream->owner->uid;
	if (uid != command->caller->uid) {
		pthread_mutex_unlock(&registry->lock);
		command_fail(command, EPERM, "stream %s belongs to uid %u, not to uid %u",
			     name, uid, command->caller->uid);
		return NULL;
	}
	if (stream->device != device) {
		uint32_t on = stream->device;

		pthread_mutex_unlock(&registry->lock);
		command_fail(command, EXDEV,
			     "stream %s is on device %u, the memory on %u", name, on,
			     device);
		return NULL;
	}
	return stream;
}
