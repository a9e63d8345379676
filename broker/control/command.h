/* SPDX-License-Identifier: MIT */
/*
 * One line of a control file, under way: what its verb reads and where it answers.
 *
 * A verb's run() parses the line, does or starts what it says, and ends in exactly one
 * command_done() or command_fail(), then or later, from any thread. While an op works for
 * a command, op->command points to it; whoever takes that pointer (under registry.lock)
 * answers.
 */
#pragma once

#include "base/completion.h"
#include "control/line.h"
#include "control/verb.h"
#include "model/access.h"
#include "op/op.h"

struct control;

struct command {
	struct broker *broker;
	struct control *control;
	const struct verb *verb;
	const struct caller *caller; /* who opened the file */
	pid_t pid;		     /* who wrote the line */
	const char *bytes;	     /* the line, until it is parsed */
	size_t length;
	struct token token; /* of the object whose file it is */
	struct line line;
	struct text answer;
	unsigned int line_number;     /* in its batch, 0 when it is alone */
	struct completion completion; /* ends the wait of a signal; answers */

	/* Has an object that the line made freed at close. Returns: 0; -ENOMEM. */
	int (*keep)(struct command *command, struct token token);
	void (*done)(struct command *command, int error); /* control's; error positive */
};

/* Answers. After this the command is gone. error is positive. */
void command_done(struct command *command, int error);

/* The done of a command's completion: command_done() or command_fail(). */
void command_completed(struct completion *completion, int error, const char *sentence);

/* Writes the sentence to the journal and answers with the error. */
void command_fail(struct command *command, int error, const char *format, ...)
	_printf_(3, 4);

/* As command_fail(), with the sentence of a line that could not be parsed. */
void command_refuse(struct command *command, const struct refusal *refusal);

/* Takes the line apart. Returns: 0; negative, and the command is answered. */
int command_parse(struct command *command, const struct grammar *grammar);

/*
 * Adds an op (NULL: there was no memory for it) that works for the command, with
 * registry.lock held, and lets go of the lock. With wait it answers when the op is done,
 * else at once. On failure the op is freed and the command answered.
 */
void command_run_op(struct command *command, struct op *op, bool wait);

/* For the finish of such ops: answers the command if it still waits, as op says. */
void command_finish_op(struct op *op);

/*
 * Finds an allocation that the command names, LIVE or LOST, and sees that the caller may
 * use it. With registry.lock held; on failure the lock is let go, the command answered.
 */

struct allocation *command_find(struct command *command, const char *name,
				enum access access);

/*
 * The same in a file of an allocation's own, which names it itself (name is then not
 * looked at); -ESTALE when that has been freed.
 */
struct allocation *command_find_own(struct command *command, const char *name,
				    enum access access);

/*
 * The stream that `stream=` names (NULL: his default) for work on a device. As
 * command_find(). Returns: NULL when it answered.
 */
struct stream *command_stream(struct command *command, const char *name, uint32_t device);
