/* SPDX-License-Identifier: MIT */
/*
 * Reads the names of a mount's allocations, or its leases, in a child process. A mount
 * that doesn't answer stops the child, for good if need be, and the tracer goes on.
 */
#pragma once

#include "base/text.h"

#include <sys/types.h>

/* An allocation of a mount, or a lease of an allocation. */
struct named {
	uint64_t address;
	uint64_t size;
	uid_t owner;
	pid_t broker;	/* the parent of the mount's workers */
	pid_t holder;	/* the process that has the lease */
	char name[592]; /* with its folders */
};

enum mount_list {
	MOUNT_ALLOCATIONS,
	MOUNT_LEASES,
	N_MOUNT_LISTS,
};

/* Of a mount; all zero before the first reading. */
struct mount_reader {
	pid_t pid; /* 0: none is reading */
	int fd;
	struct text text; /* a struct named after the other, as they come */
};

/*
 * Starts to read a list of the mount of a device at a path. Names count only for a broker
 * that runs as `user`.
 *
 * Returns: 0; -errno.
 */
int mount_reader_start(struct mount_reader *reader, const char *path, dev_t device,
		       uid_t user, enum mount_list list);

/*
 * Takes new names, and waits for more until `deadline` (CLOCK_MONOTONIC, in nanoseconds;
 * 0: not at all).
 *
 * Returns: whether all names are there, and the reader has ended.
 */
bool mount_reader_take(struct mount_reader *reader, uint64_t deadline);

/* Ends a reading under way, and frees the names. */
void mount_reader_deinit(struct mount_reader *reader);
