/* SPDX-License-Identifier: MIT */
/*
 * The maps of the BPF programs that are read while they run: processes, the ledger, what
 * was lost.
 */
#pragma once

#include "output.h"

/* Follow a process and its descendants. Returns: 0; -errno, with a sentence. */
int process_follow(struct tracer *tracer, pid_t pid, struct text *why);

/* Removes what processes that have ended left in the maps. */
void processes_bury(struct tracer *tracer);

/* Says on stderr what could not be kept, if anything. */
void processes_say_lost(const struct tracer *tracer);

/* Tells the output what was lost since the last time. */
void processes_tell_lost(struct tracer *tracer);

/* One word for it: "events" ... */
const char *lost_name(enum lost what);
