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

/* A process that was traced. */
struct mount_user {
	uint64_t process; /* its number, which no other process has had */
	unsigned int pid;
	unsigned int uid;
	const char *comm;
};

/*
 * The allocation that an address of a process belongs to. Names that were read before
 * `since` (CLOCK_MONOTONIC, in nanoseconds) are read anew.
 *
 * Returns: NULL for a process that is no worker of a broker whose mount can be read, and
 * for an address without a name. Good until the next call.
 */
const char *mount_name(struct mounts *mounts, const struct mount_user *user,
		       uint64_t address, uint64_t since);

/* Learns whose worker it is, if it is one, while it lives: its names are had after it
 * too. */
void mounts_meet(struct mounts *mounts, const struct mount_user *user);

/* Forgets that again. */
void mounts_forget(struct mounts *mounts, uint64_t process);
