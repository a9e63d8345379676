/* SPDX-License-Identifier: MIT */
/*
 * Why tracing can't begin, in a sentence.
 */
#pragma once

#include "base/text.h"
#include "library.h"
#include "options.h"

/* Returns: whether a needed capability is missing; `why` names the capability. */
bool missing_capability(enum attach_way way, struct text *why);

/* Explains an -errno of loading or attaching the programs. */
void missing_say(enum attach_way way, int error, struct text *why);

/* Says that no library can be probed, and why found libraries were left out. */
void missing_library(const struct libraries *libraries, struct text *why);
