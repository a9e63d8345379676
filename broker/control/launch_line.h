/* SPDX-License-Identifier: MIT */
/*
 * The line of a launch: what it says, before anything is looked up.
 */
#pragma once

#include "control/line.h"

#include <gpumem/wire.h>

enum launch_arg_kind { ARG_ALLOCATION, ARG_VALUE };

struct launch_arg {
	enum launch_arg_kind kind;
	const char *word; /* as it stands in the line */

	/* an allocation */
	char name[65];
	uint64_t offset;
	bool reads, writes;

	/* a value */
	uint32_t size;	/* bytes; of an allocation that of an address */
	uint32_t place; /* in the bytes of all */
};

struct launch_line {
	uint32_t grid[3], block[3], cluster[3]; /* cluster: zero: none */
	uint32_t shared;
	bool cooperative;
	uint32_t timeout_ms; /* 0: none */
	bool wait;
	const char *stream; /* NULL: the default */
	unsigned int n_args;
	struct launch_arg *args; /* owned */
	uint8_t *bytes; /* of all arguments; owned; an allocation's are not filled */
	uint32_t n_bytes;
};

extern const struct grammar launch_grammar;	/* control/launch: M F first */
extern const struct grammar launch_own_grammar; /* a function's own file */

/*
 * Reads a line that one of these grammars took apart.
 * Returns: 0; negative and a refusal; launch_line_deinit() either way.
 */
int launch_line_parse(struct launch_line *launch, const struct line *line,
		      struct refusal *refusal);

/* Frees the arguments; the rest stays as it is. */
void launch_line_deinit(struct launch_line *launch);
