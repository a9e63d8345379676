/* SPDX-License-Identifier: MIT */
/* The specification of a launch, with names not looked up yet. */
#pragma once

#include <gpumem/wire.h>

#include <stddef.h>
#include <stdlib.h>

enum launch_arg_kind { ARG_ALLOCATION, ARG_VALUE };

struct launch_arg {
	enum launch_arg_kind kind;
	const char *word; /* as written in the line */

	/* an allocation */
	char *name; /* owned */
	uint64_t offset;
	bool reads, writes;
	unsigned int use; /* index in the uses of the launch's work */

	/* a value */
	uint32_t size;	/* bytes; for an allocation the size of an address */
	uint32_t place; /* position in the bytes of all arguments */
};

struct launch_spec {
	uint32_t grid[3], block[3], cluster[3]; /* cluster: zero: none */
	uint32_t shared;
	bool cooperative;
	uint32_t timeout_ms; /* 0: none */
	bool wait;
	const char *stream; /* NULL: the default */
	unsigned int n_args;
	struct launch_arg *args; /* owned */
	uint8_t *bytes; /* of all arguments; owned; addresses of allocations are not
			   filled in */
	uint32_t n_bytes;
};

/* Frees the arguments; other fields stay. */
static inline void launch_spec_deinit(struct launch_spec *spec)
{
	for (unsigned int i = 0; i < spec->n_args; i++)
		free(spec->args[i].name);
	free(spec->args);
	free(spec->bytes);
	spec->args = NULL;
	spec->bytes = NULL;
	spec->n_args = 0;
}
