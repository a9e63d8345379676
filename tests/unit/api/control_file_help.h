/* SPDX-License-Identifier: MIT */
/*
 * A control file with a fake verb whose lines are: `say WORD` succeeds at once, `fail`
 * fails before it begins, `burst` fails after it began, and `wait NAME` waits until the
 * test completes the line, from this thread or another.
 */
#pragma once

#include "api/control_file.h"
#include "control/command.h"
#include "model/journal.h"
#include "model/registry.h"
#include "unit/broker_help.h"

extern struct registry registry;
extern struct journal journal;
extern struct broker broker;
extern const struct verb fake;
extern struct control *control;
extern struct answer answer;   /* of begin() and flush() */
extern bool waiting_ends_well; /* an interrupt of `wait` answers 0, not EINTR */
extern bool interrupt_first;   /* a signal comes while `wait` begins */
extern pthread_t runner;       /* of the last line */

void begin(const char *lines);
void flush(void);
void expect_answer(int error, size_t length);
void expect_write(const char *lines, int error, size_t length);
void expect_read(const char *expected);
void expect_ran(const char *expected);

/* Waits for a line under way and takes the line. */
struct command *wait_for_line(void);
