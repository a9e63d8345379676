/* SPDX-License-Identifier: MIT */
/*
 * Why tracing can't begin, in a sentence.
 */
#pragma once

#include "base/text.h"
#include "library.h"
#include "options.h"

/* Returns: whether a capability is missing that is known to be needed; says which. */
bool missing_capability(enum attach_way way, struct text *why);

/* Says what is missing when the programs could not be loaded or attached: -errno. */
void missing_say(enum attach_way way, int error, struct text *why);

/* Says that there is no library to probe, and what became of those that were found. */
void missing_library(const struct libraries *libraries, struct text *why);
