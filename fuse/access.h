/* SPDX-License-Identifier: MIT */
/*
 * The mode of a file, checked once more by the broker. The kernel checks it before it
 * sends a request, and the request may wait its turn (slow_lane.h) while a chmod closes
 * the mode.
 */
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

struct node;
struct view;

/*
 * Whether the sender may do with the file now what the flags of an open ask for, as Linux
 * reads modes. Root may. No capability counts. Returns: 0; -EACCES; -ESTALE; -ENOMEM.
 */
int access_check_open(struct view *view, fuse_req_t req, const struct node *node,
		      const struct fuse_file_info *info);

/*
 * Whether the sender may truncate the file by its path now. Reads no groups, since the
 * kernel holds the lock of the file meanwhile: where only the supplementary groups of the
 * sender decide, the kernel has decided. Returns: 0; -EACCES; -ESTALE.
 */
int access_check_truncate(struct view *view, fuse_req_t req, const struct node *node);
