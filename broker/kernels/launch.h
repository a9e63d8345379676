/* SPDX-License-Identifier: MIT */
/* A launch: its specification, its op, and the checks before a worker gets it. */
#pragma once

#include "kernels/launch_spec.h"
#include "kernels/module_use.h"
#include "op/op.h"

struct caller;

struct launch {
	struct op op;
	struct launch_spec spec;
	struct module_use use;
	uint8_t *payload;
	char *kernel; /* for sentences: module/function; owned */
	char stream[OBJECT_NAME_MAX + 1];
	uint64_t elapsed_ns;
	uint32_t n_resets;   /* resets of the worker when the launch was queued */
	bool counted;	     /* counted in the stream's n_sent */
	struct launch *next; /* next launch that waits for room on the stream */
};

/* Makes an empty launch. The caller adds the op. NULL: no memory. */
struct launch *launch_new(struct broker *broker, void (*finish)(struct op *op));

/* Frees a launch that was never added. Takes NULL. */
void launch_discard(struct launch *launch);

/*
 * The allocation that an argument names, LIVE or LOST; size: of the kernel's parameter.
 * NULL: refused.
 */
struct allocation *launch_find_named(const struct launch *launch,
				     const struct launch_arg *arg, uint32_t size,
				     const struct caller *caller,
				     struct refusal *refusal);

/* Checks the arguments against the kernel's parameters. Returns: 0; negative, refused. */
int launch_check_params(struct launch *launch, const struct caller *caller,
			struct refusal *refusal);

/*
 * Checks grid, block and shared memory against the device. Returns: 0; negative, refused.
 */
int launch_check_limits(struct launch *launch, struct refusal *refusal);

/*
 * Checks that the kernel's worker may map the allocation of an argument, which the caller
 * may use so. Returns: 0; -EXDEV, -EACCES.
 */
int launch_check_reach(struct launch *launch, const struct launch_arg *arg,
		       const struct allocation *allocation, const struct caller *caller,
		       struct refusal *refusal);

/*
 * Checks before the kernel begins that its owner may still use all allocations. Under
 * registry.lock. Returns: 0, with the writable uses marked; -EACCES, or the error of a
 * move, and a refusal.
 */
int launch_check_rights(struct launch *launch, struct refusal *refusal);

/* Notes the time of the write for each allocation written. Under registry.lock. */
void launch_note_written(struct launch *launch);

/*
 * Notes the time of the use for each allocation: of the launch, and of its end. Under
 * registry.lock.
 */
void launch_note_used(struct launch *launch);
