/* SPDX-License-Identifier: MIT */
/*
 * One open descriptor of a control file: lines in, answers out.
 *
 * Here are the rules of control files: a batch is one write, done in order, stopped at
 * the first line that fails (the write is short there, the next write only returns the
 * error, once); a last line that a buffer cut (length a multiple of 4096, no newline)
 * waits for the next write or for close; a line that failed after it began to run is not
 * run again when the same bytes come again; reading gives the usage on a fresh
 * descriptor (of some verbs the object's state), after a write its answers once, after a
 * failure its sentence.
 */
#pragma once

#include "api/broker.h"
#include "api/verb_table.h"

struct control;

/*
 * token: the object whose own control file it is, TOKEN_NONE for control/NAME. The caller
 * is copied, groups and all: commands act as whoever opened the file.
 *
 * Returns: 0; -ENOMEM; -ESTALE.
 */
int control_new(struct control **ret_control, struct broker *broker,
		const struct verb *verb, struct token token, const struct caller *caller);

/* Closes: what `until=close` made here is freed. No write is under way any more. */
struct control *control_free(struct control *control);

/* pid is the writer's, for the journal. bytes are copied. done's length: bytes taken. */
void control_write(struct control *control, pid_t pid, const char *bytes, size_t length,
		   struct wait *wait);

/* close(2) by somebody: a line that a buffer cut is done now. done's error is close's. */
void control_flush(struct control *control, pid_t pid, struct wait *wait);

/* Whether the next read prints the state of an object, for which has to be asked. */
bool control_wants_state(struct control *control);

/* Asks for the state; done's bytes are its text. */
void control_ask_state(struct control *control, struct wait *wait);

/* Has the next reads print it, unless a line was written or it was told meanwhile. */
void control_tell_state(struct control *control, const char *bytes, size_t length);

/* Takes the next bytes to be read. Returns: how many; 0 at the end of the answer. */
size_t control_read(struct control *control, char *bytes, size_t size);
