/* SPDX-License-Identifier: MIT */
/*
 * An open descriptor of a control file: lines in, answers out.
 *
 * Rules of control files:
 *
 * A write is a batch, run in order, stopped at the first line that fails. The write is
 * short then, and the next write only returns the error, once.
 *
 * A last line cut by a full buffer (length a multiple of 4096, no newline) waits for the
 * next write or for close.
 *
 * A line that was started and failed is not run again when the same bytes come again.
 *
 * On a fresh descriptor, read gives the usage, or for some verbs the object's state.
 * After a write, read gives the answers once; after a failure the sentence.
 *
 * The opener's share of texts is charged for unread answers and a cut line. Beyond the
 * share no further line is begun, and the answers so far can be read.
 */
#pragma once

#include "api/broker.h"
#include "api/verb_table.h"

struct control;

/*
 * token: the object with this control file; TOKEN_NONE for control/NAME. The caller is
 * copied with its groups: commands run with the rights of the user who opened the file.
 *
 * Returns: 0; -ENOMEM; -ESTALE.
 */
int control_new(struct control **ret_control, struct broker *broker,
		const struct verb *verb, struct token token, const struct caller *caller);

/*
 * Closes the control; frees its allocations made with `until=close`. No write is under
 * way any more.
 */
struct control *control_free(struct control *control);

/* pid: the thread that waits in write(2). bytes are copied. done's length: bytes taken.
 */
void control_write(struct control *control, pid_t pid, const char *bytes, size_t length,
		   struct completion *wait);

/*
 * close(2): runs a line cut by a full buffer, as the one who wrote it, whoever closes.
 * done's error is close's.
 */
void control_flush(struct control *control, struct completion *wait);

/* Whether the next read needs the state of the object. */
bool control_wants_state(struct control *control);

/* Asks for the state; done's bytes are the text. */
void control_ask_state(struct control *control, struct completion *wait);

/*
 * Sets the text for the next reads, unless a line was written or a text set meanwhile.
 * Returns: 0; -ENOMEM, -EDQUOT.
 */
int control_tell_state(struct control *control, const char *bytes, size_t length);

/* Reads the next bytes. Returns: their number; 0 at the end of the answer. */
size_t control_read(struct control *control, char *bytes, size_t size);
