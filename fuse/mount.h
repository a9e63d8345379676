/* SPDX-License-Identifier: MIT */
/* The mount point: before, and at the end. */
#pragma once

#include "base/text.h"

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

/*
 * Makes a mount point ready: takes away the mount of a dead broker.
 * Returns: 0 and the absolute path, to be freed; -errno, and why has a sentence.
 */
int mount_prepare(const char *mountpoint, char **ret_path, struct text *why);

/* The identity of a mount, distinct from later mounts at the same path. */
struct mount {
	const char *path; /* borrowed */
	uint64_t device;  /* of its filesystem */
	uint64_t id;
	bool unique; /* the id is never given to another mount (Linux 6.8) */
};

/*
 * Notes the mount just made at the path; asks only the kernel, not the server.
 * Returns: 0; -errno.
 */
int mount_note(struct mount *ret_mount, const char *path);

/*
 * Takes the mount out of the tree, but never a later mount at the same path; open files
 * keep the filesystem alive. has_ended: the connection is gone.
 */
void mount_detach(const struct mount *mount, bool has_ended);

/* Lets libfuse clean up without unmounting a later mount at the path. */
void mount_forget(struct fuse_session *session);
