/* SPDX-License-Identifier: MIT */
/* What the BPF programs could not keep. */
#pragma once

#include "output.h"

/* Says on stderr what could not be kept, if anything. */
void lost_say(const struct tracer *tracer);

/* Tells the output what was lost since the last time. */
void lost_tell(struct tracer *tracer);

/* One word for it: "events" ... */
const char *lost_name(enum lost what);
