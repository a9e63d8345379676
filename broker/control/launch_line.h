/* SPDX-License-Identifier: MIT */
/* Parses the line of a launch, before names are looked up. */
#pragma once

struct launch_spec;
struct line;
struct refusal;

/* The usage of a function's own file; in control/launch M and F stand in front. */
#define LAUNCH_USAGE                                                                     \
	"grid=X[,Y[,Z]] block=X[,Y[,Z]]|elements=N [block=N] [shared=BYTES] [stream=S] " \
	"[cooperative=1] [cluster=X[,Y[,Z]]] [timeout=SECONDS] [wait=0] ARG..."

/*
 * Reads a line parsed with this usage. Returns: 0; negative and a refusal.
 * Call launch_spec_deinit() in either case.
 */
int launch_line_parse(struct launch_spec *launch, const struct line *line,
		      struct refusal *refusal);
