/* SPDX-License-Identifier: MIT */
/*
 * Programs outside of gpumem that use the GPUs of a mount. Processes of the mount's
 * broker are none of them; programs with leases are, with all the memory that NVML
 * counts.
 */
#pragma once

#include "nvml.h"
#include "snapshot.h"
#include "table.h"

struct programs {
	struct nvml *nvml;   /* NULL: not loaded */
	struct text missing; /* the sentence why it is not */
};

/* Loads NVML, which stays loaded. Without it programs_list() says why. */
void programs_init(struct programs *programs);
void programs_deinit(struct programs *programs);

/*
 * Adds a line to the table for each program and GPU: PROGRAM, PID, USER, GPU, MEMORY.
 * Adds a line to `missing` that says which GPUs' programs are unknown, and why.
 *
 * user: only of this user, a name or a number; NULL: of all. gpu: only of this GPU;
 * negative: of all.
 */
void programs_list(const struct programs *programs, const struct snapshot *snapshot,
		   const char *user, int gpu, struct table *table, struct text *missing);
