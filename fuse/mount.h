/* SPDX-License-Identifier: MIT */
/* The mount point: before, and at the end. */
#pragma once

#include "base/text.h"

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

/*
 * Makes a mount point ready: what a dead broker left there is taken away.
 * Returns: 0 and its absolute path, to be freed; -errno, and why says it in a sentence.
 */
int mount_prepare(const char *mountpoint, char **ret_path, struct text *why);

/* A mount, told from whatever is mounted at its path later. */
struct mount {
	const char *path; /* borrowed */
	uint64_t device;  /* of its filesystem */
	uint64_t id;
	bool unique; /* the id is never given to another mount (Linux 6.8) */
};

/*
 * Notes what has just been mounted at the path; asks nothing of who serves it.
 * Returns: 0; -errno.
 */
int mount_note(struct mount *ret_mount, const char *path);

/*
 * Takes the mount out of the tree, and no other that is at its path by now; files still
 * open there keep it alive till the end. has_ended: its connection is gone.
 */
void mount_detach(const struct mount *mount, bool has_ended);

/* Lets libfuse clean up without unmounting what may be there by now. */
void mount_forget(struct fuse_session *session);
