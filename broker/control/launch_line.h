/* SPDX-License-Identifier: MIT */
/* Parses the line of a launch, before names are looked up. */
#pragma once

#include "control/line.h"
#include "kernels/launch_spec.h"

extern const struct grammar launch_grammar;	/* control/launch: M F first */
extern const struct grammar launch_own_grammar; /* a function's own file */

/*
 * Reads a line parsed with one of these grammars. Returns: 0; negative and a refusal.
 * Call launch_spec_deinit() in either case.
 */
int launch_line_parse(struct launch_spec *launch, const struct line *line,
		      struct refusal *refusal);
