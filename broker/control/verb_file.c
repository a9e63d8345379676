/* SPDX-License-Identifier: MIT */
/* `load` and `save`. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/refusal.h"
#include "control/command.h"
#include "control/line.h"
#include "control/verbs.h"
#include "memops/file.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/range.h"
#include "model/registry.h"
#include "op/op.h"
#include "process/broker.h"

struct file_line {
	char path[LINE_MAX_LENGTH + 1];
	struct file_id file_id;
	struct range range;
	uint64_t file_offset;
	bool wait;
};

/* DEVICE:INODE. word NULL: any file. */
static int file_id_parse(const char *word, struct file_id *ret_id,
			 struct refusal *refusal)
{
	const char *inode = word ? strchr(word, ':') : NULL;
	char device[32] = "";

	*ret_id = (struct file_id){ 0 };
	if (!word)
		return 0;
	if (inode)
		snprintf(device, sizeof(device), "%.*s", (int)(inode - word), word);
	if (inode && number_parse(device, &ret_id->device) == 0 &&
	    number_parse(inode + 1, &ret_id->inode) == 0 && ret_id->inode)
		return 0;
	return refuse(refusal, EINVAL,
		      "file_id=%.64s is not DEVICE:INODE, two numbers as of "
		      "stat -c %%d:%%i FILE",
		      word);
}

static int file_parse(struct command *command, struct file_line *line,
		      struct refusal *refusal)
{
	const struct line *words = &command->line;
	const char *file_offset = line_value(words, "file_offset");
	int r;

	r = line_full_name(words->operands[0], "allocation", refusal);
	if (r == 0)
		r = line_path(line_value(words, "path"), line->path, refusal);
	if (r == 0)
		r = file_id_parse(line_value(words, "file_id"), &line->file_id, refusal);
	if (r == 0)
		r = line_range(line_value(words, "offset"), line_value(words, "length"),
			       &line->range, refusal);
	if (r == 0 && file_offset)
		r = line_size(file_offset, "file_offset", &line->file_offset, refusal);
	if (r == 0 && line->file_offset > INT64_MAX / 2)
		r = refuse(refusal, EOVERFLOW, "file_offset=%.64s is past all files",
			   file_offset);
	return r < 0 ? r : line_wait(line_value(words, "wait"), &line->wait, refusal);
}

/*
 * The worker looks the path up where the broker runs. For a program with another root or
 * other mounts (a container) that would be another file, perhaps the host's. Returns: 0;
 * -EXDEV; -EPERM.
 */
static int file_check_caller(const struct command *command, struct refusal *refusal)
{
	if (geteuid() != 0 && command->caller->uid != geteuid())
		return refuse(refusal, EPERM,
			      "the broker of uid %u can't open files as uid %u",
			      geteuid(), command->caller->uid);
	if (command->foreign >= 0)
		return refuse(refusal, EXDEV,
			      "process %d, which opened this file or wrote the line, "
			      "does not see the files that the broker sees (a container, "
			      "a chroot): cp reads and writes allocations/%s/data from "
			      "there",
			      command->foreign, command->line.operands[0]);
	return 0;
}

/* A failure that no line waits for any more is in `errors`. */
static void file_finish(struct op *op)
{
	char name[64];

	if (!op->completion && op->error) {
		snprintf(name, sizeof(name), "control/%s", op->class->what);
		journal_fail(op->broker->journal, op->uid, op->pid, name, op->error,
			     text_string(&op->sentence));
	}
	command_finish_op(op);
}

static void verb_file(struct command *command, bool save)
{
	struct registry *registry = command->broker->registry;
	struct op *op = NULL, *ready = NULL;
	struct allocation *allocation;
	struct file_line line = { 0 };
	struct file_spec spec;
	struct refusal refusal;
	int r;

	if (command_parse(command) < 0)
		return;
	if (file_parse(command, &line, &refusal) < 0 ||
	    file_check_caller(command, &refusal) < 0) {
		command_refuse(command, &refusal);
		return;
	}
	pthread_mutex_lock(&registry->lock);
	allocation = command_find(command, command->line.operands[0], "id",
				  save ? ACCESS_READ : ACCESS_WRITE);
	if (!allocation || (!save && !command_may_write(command, allocation)))
		return;
	spec = (struct file_spec){
		.path = line.path,
		.file_id = line.file_id,
		.file_offset = line.file_offset,
		.to_end = !save && !line.range.has_length,
		.save = save,
		.wait = line.wait,
	};
	r = range_fit(&line.range, allocation, &refusal);
	if (r == 0)
		r = file_op_new(command->broker, command->caller, allocation, &line.range,
				&spec, &op, &ready, &refusal);
	if (r < 0) {
		pthread_mutex_unlock(&registry->lock);
		op_start(ready);
		command_refuse(command, &refusal);
		return;
	}
	op->finish = file_finish;
	(save ? allocation_used : allocation_written)(allocation);
	command_run_op(command, op, line.wait);
	op_start(ready);
}

void verb_load(struct command *command)
{
	verb_file(command, false);
}

void verb_save(struct command *command)
{
	verb_file(command, true);
}
