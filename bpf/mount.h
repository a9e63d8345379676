/* SPDX-License-Identifier: MIT */
/*
 * The broker's names for what its workers allocate, read from its mounts.
 */
#pragma once

#include "base/def.h"

struct mounts;

/* Returns: NULL when there is no memory. */
struct mounts *mounts_new(void);
struct mounts *mounts_free(struct mounts *mounts);

/*
 * The allocation that an address of a process belongs to. Names that were read before
 * `since` (CLOCK_MONOTONIC, in nanoseconds) are read anew.
 *
 * Returns: NULL for a process that is no worker, and for an address without a name. Good
 * until the next call.
 */
const char *mount_name(struct mounts *mounts, const char *comm, unsigned int uid,
		       uint64_t address, uint64_t since);
