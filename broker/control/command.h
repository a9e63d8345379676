/* SPDX-License-Identifier: MIT */
/*
 * One line of a control file, from parsing to answering.
 *
 * A verb's run() parses the line, does or starts the work, and ends in exactly one
 * command_done() or command_fail(), at once or later, from any thread. While an op works
 * for a command, op->completion points to the command's completion.
 */
#pragma once

#include "base/completion.h"
#include "base/process.h"
#include "base/text.h"
#include "control/line.h"
#include "model/access.h"
#include "model/object.h"
#include "process/user_lanes.h"

struct control;
struct lifetime; /* memops/lifetime.h */
struct op;

struct command {
	struct broker *broker;
	struct control *control;
	const struct verb *verb;
	const struct caller *caller; /* opened the file */
	/*
	 * The thread that wrote the line, or its end. It waits in write(2) while the line
	 * is done, unless close(2) does the line, perhaps another process's: see
	 * command_writer_lives().
	 */
	pid_t pid;
	struct process_identity writer; /* at the write */
	bool writer_left;		/* close does the line */
	/*
	 * With verb.opens_files: the thread that opened the file, or wrote bytes of the
	 * line, and sees other files than the broker; -1: none.
	 */
	pid_t foreign;
	const char *bytes; /* the line, until parsed */
	size_t length;
	struct token token; /* of the object with this file */
	struct line line;
	struct text answer;
	unsigned int line_number;     /* in its batch; 0: a single line */
	struct completion completion; /* cancelled by a signal; answers */

	bool put_off;		   /* command_put_off() */
	enum user_lane lane;	   /* where the line runs; N_USER_LANES: in none */
	struct lifetime *lifetime; /* of the descriptor; NULL: nothing ends with it yet */
	char *cgroup;		   /* see command_cgroup() */
	bool cgroup_asked;
	void (*done)(struct command *command,
		     int error); /* set by the file; error >= 0 */
};

/* Answers and frees the command. error is 0 or positive. */
void command_done(struct command *command, int error);

/* The done of a command's completion: command_done() or command_fail(). */
void command_completed(struct completion *completion, int error, const void *sentence,
		       size_t length);

/* Adds the path of the file, relative to the root of the mount. Under registry.lock. */
void command_file(const struct command *command, struct text *file);

/* Writes the sentence to the journal and answers with the error. */
void command_fail(struct command *command, int error, const char *format, ...)
	_printf_(3, 4);

/* As command_fail(), with the sentence of a line that could not be parsed. */
void command_refuse(struct command *command, const struct refusal *refusal);

/* The line begins again in that lane of the user: a thread of the view waits for nothing.
 */
void command_put_off(struct command *command, enum user_lane lane);

/* Parses the line by the usage of its verb. Returns: 0; negative, and the command is
 * answered. */
int command_parse(struct command *command);

/* Whether command.pid is still the thread that wrote the line. */
bool command_writer_lives(const struct command *command);

/*
 * The cgroup of the process that wrote the line; asked once a write, unless `again`.
 * NULL: none, or unknown.
 */
const char *command_cgroup(struct command *command, bool again);

/* Another process may write the next line. */
void command_forget_cgroup(struct command *command);

/*
 * Adds an op for the command (NULL: no memory for the op), with registry.lock held, and
 * releases the lock. With wait the command is answered when the op is done, otherwise at
 * once. On failure the op is freed and the command answered.
 */
void command_run_op(struct command *command, struct op *op, bool wait);

/* finish() of such ops: answers the command with the op's result, if still waiting. */
void command_finish_op(struct op *op);

/*
 * Finds an allocation by name, LIVE or LOST, and checks the caller's permission. The key,
 * `id` mostly, is that of the number which the allocation must have where the line gives
 * one; NULL: none. With registry.lock held. On failure the lock is released and the
 * command answered.
 */
struct allocation *command_find(struct command *command, const char *name,
				const char *key, enum access access);

/* Checks the caller's permission. As command_find(). */
struct allocation *command_check_access(struct command *command,
					struct allocation *allocation,
					enum access access);

/*
 * Whether the allocation may still be written. With registry.lock held. On failure the
 * lock is released and the command answered.
 */
bool command_may_write(struct command *command, const struct allocation *allocation);

/*
 * As command_find(); in an allocation's own file the name is ignored. -ESTALE when the
 * allocation has been freed.
 */
struct allocation *command_find_own(struct command *command, const char *name,
				    enum access access);

/*
 * Finds the stream of `stream=` (NULL: the caller's default) for work on a device. As
 * command_find(). Returns: NULL after answering.
 */
struct stream *command_stream(struct command *command, const char *name, uint32_t device);
