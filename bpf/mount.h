/* SPDX-License-Identifier: MIT */
/*
 * The brokers' names of allocations, read from mounts.
 */
#pragma once

#include "base/def.h"

struct imports;
struct mounts;

/* Returns: NULL when there is no memory. */
struct mounts *mounts_new(void);
struct mounts *mounts_free(struct mounts *mounts);

/* A traced process. */
struct mount_user {
	uint64_t process; /* a unique number */
	unsigned int pid;
	unsigned int uid;
	const char *comm;
};

/*
 * The name of the allocation at an address of a process. Names read before `since`
 * (CLOCK_MONOTONIC, in nanoseconds) are read anew.
 *
 * Returns: NULL for an address without a name, and for a process other than a worker of a
 * broker with a readable mount. Good until the next call.
 */
const char *mount_name(struct mounts *mounts, const struct mount_user *user,
		       uint64_t address, uint64_t since);

/* Memory that a process has mapped, or registered. */
struct mount_mapping {
	uint64_t address;
	uint64_t size;
	uint64_t time; /* CLOCK_MONOTONIC, in nanoseconds */
	bool imported;
};

/*
 * The name of the allocation behind a new mapping, where the process has leased the
 * allocation. `imports` are the mappings with a name already.
 *
 * Returns: NULL for other memory, and for a process whose leases no readable mount shows.
 * Good until the next call.
 */
const char *mount_lease_name(struct mounts *mounts, const struct mount_user *user,
			     const struct mount_mapping *mapping,
			     const struct imports *imports);

/* Learns a worker's broker while the worker lives: names are needed after the end of the
 * worker, too. */
void mounts_meet(struct mounts *mounts, const struct mount_user *user);

/* Forgets an ended process. */
void mounts_forget(struct mounts *mounts, uint64_t process);
