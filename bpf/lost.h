/* SPDX-License-Identifier: MIT */
/* Events and entries that the BPF programs could not keep. */
#pragma once

#include "output.h"

/* Prints to stderr how much was lost, if anything. */
void lost_say(const struct tracer *tracer);

/* Tells the mode how much was lost since the last call. */
void lost_tell(struct tracer *tracer);

/* The lost things in a word: "events" ... */
const char *lost_name(enum lost what);
