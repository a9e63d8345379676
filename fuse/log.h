/* SPDX-License-Identifier: MIT */
/*
 * What gpumemd tells the administrator: warnings and worse, to the system's journal when
 * stderr is connected to the journal, else to stderr; and the service manager's status.
 *
 * A thread writes the broker's warnings (base/warning.h), since a reader of stderr may
 * keep a writer waiting. A line that stderr has no room for within a second is dropped,
 * and so are those that follow until there is room: the keeper writes its lines before it
 * starts the next broker.
 */
#pragma once

#include "base/def.h"

/* Finds out where the words go. At the start, before stderr changes. */
void log_init(void);

/* The terminal is left: what was for stderr goes to the journal, if there is one. */
void log_leave_terminal(void);

/* Says why gpumemd can't start, or did not end cleanly. Returns: EXIT_FAILURE. */
int log_complain(const char *format, ...) _printf_(1, 2);

/* Tells what is good to know, and nothing is wrong. */
void log_note(const char *sentence);

struct log;
struct warnings;

/* Starts the thread. NULL: no memory, no thread. */
struct log *log_new(void);

/* For the broker to add to. */
struct warnings *log_warnings(struct log *log);

/* Ends the thread when all warnings are written; within a limited time, for the journal
 * may hang. Returns: NULL. */
struct log *log_free(struct log *log);
