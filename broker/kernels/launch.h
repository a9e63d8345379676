/* SPDX-License-Identifier: MIT */
/* A launch: what to run, its op, and the checks before a worker gets it. */
#pragma once

#include "kernels/launch_spec.h"
#include "kernels/module_use.h"
#include "op/op.h"

struct launch {
	struct op op;
	struct launch_spec spec;
	struct module_use use;
	uint8_t *payload;
	char kernel[2 * NAME_MAX_LENGTH + 2]; /* for sentences: module/function */
	char stream[NAME_MAX_LENGTH + 1];
	uint64_t elapsed_ns;
	uint32_t n_resets; /* of its worker when it was queued */
	bool counted;	   /* in its stream's n_sent */
};

/* A launch without a line. Its op is added by the caller. NULL: no memory. */
struct launch *launch_new(struct broker *broker, void (*finish)(struct op *op));

/* Frees one that was never added. Takes NULL. */
void launch_discard(struct launch *launch);

/* The arguments against the kernel's own parameters. Returns: 0; negative, refused. */
int launch_check_params(struct launch *launch, struct refusal *refusal);

/* Grid, block and shared memory against the device's. Returns: 0; negative, refused. */
int launch_check_limits(struct launch *launch, struct refusal *refusal);

/*
 * Whether the worker that runs the kernel may have the allocation of an argument mapped.
 * Returns: 0; -EXDEV, -EACCES.
 */
int launch_check_reach(struct launch *launch, const struct launch_arg *arg,
		       const struct allocation *allocation, struct refusal *refusal);

/*
 * When it is to begin: whether the owner of the kernel still may use all of it.
 * Returns: 0, and its uses say what he may write; -EACCES and a refusal.
 */
int launch_check_rights(struct launch *launch, struct refusal *refusal);

/* Whether that is so of one that has begun. Under registry.lock. */
bool launch_may_use(const struct op *op, const struct use *use);

/* Notes the time of what it writes. Under registry.lock. */
void launch_note_written(struct launch *launch);
