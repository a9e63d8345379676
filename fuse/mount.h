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

/* Takes the mount out of the tree; files still open there keep it alive till the end. */
void mount_detach(const char *path);

/* Lets libfuse clean up without unmounting what may be there by now. */
void mount_forget(struct fuse_session *session);
