/* SPDX-License-Identifier: MIT */
/* Listings of folders, see fuse_lowlevel.h. */
#pragma once

#include "tree.h"

void list_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		  struct fuse_file_info *info);
void list_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		      struct fuse_file_info *info);
