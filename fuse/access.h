/* SPDX-License-Identifier: MIT */
/*
 * The mode of a file, checked once more by the broker. The kernel checks it before it sends
 * a request, and the request may wait its turn (slow_lane.h) while a chmod closes the mode.
 */
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

struct node;
struct view;

/*
 * Whether the sender may read (R_OK) and write (W_OK) the file now, as Linux reads modes.
 * Root may. No capability counts. Returns: 0; -EACCES; -ESTALE; -ENOMEM.
 */
int access_check(struct view *view, fuse_req_t req, const struct node *node, int wanted);

/* The same, for what the flags of an open ask for. */
int access_check_open(struct view *view, fuse_req_t req, const struct node *node,
		      const struct fuse_file_info *info);
