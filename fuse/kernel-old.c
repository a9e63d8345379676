/* SPDX-License-Identifier: MIT */
/*
 * libfuse before 3.17 knows no FUSE_PASSTHROUGH, and Debian 12's no parallel writes. Two
 * replies need a few bytes more than libfuse fills in: those to INIT and OPEN. The
 * answering thread sends both through a hook (fuse_session_custom_io), so a variable of
 * the thread keeps the additions until then. The names are the kernel's, declared here
 * where the system's headers are older.
 *
 * Passthrough only maps: because of FOPEN_DIRECT_IO reads and writes still come here.
 * Passthrough needs CAP_SYS_ADMIN; otherwise mapping is ENODEV.
 */
#include "backing.h"
#include "crash_request.h"
#include "kernel.h"
#include "view.h"

#include "base/crash.h"
#include "base/def.h"

#include <linux/fuse.h>
#include <string.h>
#include <sys/uio.h>

#ifndef FOPEN_PASSTHROUGH
#define FOPEN_PASSTHROUGH (1 << 7)
#endif
#ifndef FUSE_PASSTHROUGH
#define FUSE_PASSTHROUGH (1ULL << 37)
#endif

/* The end of struct fuse_init_out from flags2 on, as protocol 7.40 has it. */
struct init_end {
	uint32_t flags2;
	uint32_t max_stack_depth;
};

/* struct fuse_open_out as protocol 7.40 has it. */
struct open_out {
	uint64_t fh;
	uint32_t open_flags;
	int32_t backing_id;
};

_Static_assert(sizeof(struct open_out) == sizeof(struct fuse_open_out), "same reply");

static uint64_t offered; /* flags of the kernel's INIT, before any other request */

/* Additions to the next reply of this thread. */
static _Thread_local struct {
	bool init;
	bool open;
	uint32_t open_flags;
	int32_t backing_id;
} extra;

static void extend_init(struct fuse_init_out *out)
{
	struct init_end *end = (struct init_end *)&out->flags2;

	if (!(offered & FUSE_PASSTHROUGH) || !(out->flags & FUSE_INIT_EXT))
		return;
	end->flags2 |= FUSE_PASSTHROUGH >> 32;
	end->max_stack_depth = 1;
}

static void extend_open(struct open_out *out)
{
	out->open_flags |= extra.open_flags;
	out->backing_id = extra.backing_id;
}

ssize_t kernel_send(int fd, struct iovec *iov, int n)
{
	ssize_t written;

	crash_point("mount: before an answer");
	written = writev(fd, iov, n);
	crash_request_answered(((struct fuse_out_header *)iov[0].iov_base)->unique);
	crash_point("mount: an answer is sent");
	return written;
}

static ssize_t hook_writev(int fd, struct iovec *iov, int n, void *userdata)
{
	struct view *view = userdata;

	if (extra.init && n == 2 && iov[1].iov_len == sizeof(struct fuse_init_out))
		extend_init(iov[1].iov_base);
	if (extra.open && n == 2 && iov[1].iov_len == sizeof(struct open_out))
		extend_open(iov[1].iov_base);
	memset(&extra, 0, sizeof(extra));
	return pace_answer(&view->pace, fd, iov, n);
}

static ssize_t hook_read(int fd, void *bytes, size_t size, void *userdata)
{
	(void)userdata;
	return crash_request_read(fd, bytes, size);
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
	const struct fuse_in_header *header = request->mem;
	const struct fuse_init_in *init = (const void *)(header + 1);

	if (header->opcode != FUSE_INIT ||
	    request->size < sizeof(*header) + offsetof(struct fuse_init_in, unused))
		return;
	offered = init->flags;
	if (offered & FUSE_INIT_EXT)
		offered |= (uint64_t)init->flags2 << 32;
}

void kernel_init(struct fuse_conn_info *connection)
{
	connection->max_background = KERNEL_BACKGROUND_MAX;
	connection->congestion_threshold = KERNEL_BACKGROUND_MAX;
	connection->want &= ~KERNEL_UNWANTED;
	extra.init = true;
}

bool kernel_can_map(void)
{
	return offered & FUSE_PASSTHROUGH;
}

int kernel_reply_open(fuse_req_t req, struct fuse_file_info *info, int backing)
{
	info->direct_io = 1;
	info->keep_cache = !backing; /* the kernel refuses both */
	extra.open = true;
	extra.open_flags =
		FOPEN_PARALLEL_DIRECT_WRITES | (backing ? FOPEN_PASSTHROUGH : 0);
	extra.backing_id = backing;
	return fuse_reply_open(req, info);
}
