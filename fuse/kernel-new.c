/* SPDX-License-Identifier: MIT */
/* libfuse from 3.17 on says it all itself. */
#include "backing.h"
#include "kernel.h"
#include "view.h"

#include <unistd.h>

static bool can_map;

ssize_t kernel_send(int fd, struct iovec *iov, int n)
{
	return writev(fd, iov, n);
}

static ssize_t hook_writev(int fd, struct iovec *iov, int n, void *userdata)
{
	struct view *view = userdata;

	return pace_answer(&view->pace, fd, iov, n);
}

static ssize_t hook_read(int fd, void *bytes, size_t size, void *userdata)
{
	(void)userdata;
	return read(fd, bytes, size);
}

int kernel_hook(struct fuse_session *session)
{
	static const struct fuse_custom_io io = {
		.writev = hook_writev,
		.read = hook_read,
	};

	backing_begin(fuse_session_fd(session));
	return fuse_session_custom_io(session, &io, fuse_session_fd(session));
}

void kernel_look(const struct fuse_buf *request)
{
	(void)request;
}

void kernel_init(struct fuse_conn_info *connection)
{
	connection->max_background = KERNEL_BACKGROUND_MAX;
	connection->congestion_threshold = KERNEL_BACKGROUND_MAX;
	fuse_unset_feature_flag(connection, KERNEL_UNWANTED);
	can_map = fuse_set_feature_flag(connection, FUSE_CAP_PASSTHROUGH);
	if (can_map)
		connection->max_backing_stack_depth = 1;
}

bool kernel_can_map(void)
{
	return can_map;
}

int kernel_reply_open(fuse_req_t req, struct fuse_file_info *info, int backing)
{
	info->direct_io = 1;
	info->keep_cache = !backing; /* the kernel refuses both */
	info->parallel_direct_writes = 1;
	info->backing_id = backing;
	return fuse_reply_open(req, info);
}
