/* SPDX-License-Identifier: MIT */
/*
 * The line of a launch, parsed before anything is looked up.
 */
#pragma once

#include "control/line.h"
#include "kernels/launch_spec.h"

extern const struct grammar launch_grammar;	/* control/launch: M F first */
extern const struct grammar launch_own_grammar; /* a function's own file */

/*
 * Reads a line that one of these grammars took apart.
 * Returns: 0; negative and a refusal; launch_spec_deinit() either way.
 */
int launch_line_parse(struct launch_spec *launch, const struct line *line,
		      struct refusal *refusal);
