/* SPDX-License-Identifier: MIT */
#include "access.h"

#include "node.h"
#include "request.h"
#include "tree.h"
#include "view.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static bool grants(unsigned int mode, int wanted)
{
	return (mode & (unsigned int)wanted) == (unsigned int)wanted;
}

/*
 * Of a sender who is neither the owner nor has the file's group as the first of his own.
 * Groups take long to read, and often don't matter. Where they matter and may not be
 * read, what the kernel has found stands.
 */
static int check_other(fuse_req_t req, const struct stat *stat, int wanted,
		       bool reads_groups)
{
	_cleanup_identity_ struct identity identity = { 0 };
	bool group = grants(stat->st_mode >> 3, wanted);
	bool others = grants(stat->st_mode, wanted);
	int error;

	if (group == others)
		return others ? 0 : -EACCES;
	if (!reads_groups)
		return 0;
	error = identity_init(&identity, req);
	if (error)
		return error;
	for (unsigned int i = 0; i < identity.caller.n_groups; i++) {
		if (identity.groups[i] == stat->st_gid)
			return group ? 0 : -EACCES;
	}
	return others ? 0 : -EACCES;
}

static int check(struct view *view, fuse_req_t req, const struct node *node, int wanted,
		 bool reads_groups)
{
	const struct caller caller = caller_of(req);
	struct stat stat;
	int error;

	/* The modes of fixed nodes never change. */
	if (node_is_fixed(node) || caller.uid == 0)
		return 0;
	error = tree_stat(view, node, &stat);
	if (error)
		return error;
	if (caller.uid == stat.st_uid)
		return grants(stat.st_mode >> 6, wanted) ? 0 : -EACCES;
	if (caller.gid == stat.st_gid)
		return grants(stat.st_mode >> 3, wanted) ? 0 : -EACCES;
	return check_other(req, &stat, wanted, reads_groups);
}

int access_check_open(struct view *view, fuse_req_t req, const struct node *node,
		      const struct fuse_file_info *info)
{
	static const int wanted[] = { [O_RDONLY] = R_OK,
				      [O_WRONLY] = W_OK,
				      [O_RDWR] = R_OK | W_OK,
				      [O_ACCMODE] = R_OK | W_OK };

	return check(view, req, node, wanted[info->flags & O_ACCMODE], true);
}

int access_check_truncate(struct view *view, fuse_req_t req, const struct node *node)
{
	return check(view, req, node, W_OK, false);
}
