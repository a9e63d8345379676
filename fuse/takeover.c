/* SPDX-License-Identifier: MIT */
#include "takeover.h"

#include "base/crash.h"
#include "base/def.h"
#include "crash_request.h"
#include "file.h"
#include "kernel.h"
#include "repeated.h"
#include "transport.h"
#include "tree.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

/* Where the system's headers are older. */
#define NOTIFY_RESEND ((int32_t)7)

int takeover_check(struct text *why)
{
	unsigned int major, minor;
	struct utsname kernel;

	if (uname(&kernel) < 0 || sscanf(kernel.release, "%u.%u", &major, &minor) != 2 ||
	    major > 6 || (major == 6 && minor >= 9))
		return 0;
	text_printf(why, "--keep needs Linux 6.9 or newer, and this is Linux %s",
		    kernel.release);
	return -EOPNOTSUPP;
}

int takeover_begin(struct fuse_session *session, struct broker *broker)
{
	const struct fuse_out_header resend = { .len = sizeof(resend),
						.error = NOTIFY_RESEND };
	struct fuse_buf request = { 0 };
	_cleanup_free_ void *copy = NULL;
	const void *bytes;

	request.size = broker_init_request(broker, &bytes);
	/* The last broker died before INIT: the kernel sends INIT again. */
	if (request.size) {
		copy = malloc(request.size);
		if (!copy)
			return -ENOMEM;
		request.mem = memcpy(copy, bytes, request.size);
		kernel_look(&request);
		fuse_session_process_buf(session, &request);
	}
	crash_point("mount: before requests come again");
	if (write(fuse_session_fd(session), &resend, sizeof(resend)) < 0)
		return -errno;
	crash_point("mount: requests come again");
	return 0;
}

void takeover_note(struct broker *broker, const struct fuse_buf *request)
{
	const struct fuse_in_header *header = request->mem;

	if (header->opcode == FUSE_INIT)
		broker_note_init_request(broker, request->mem, request->size);
	crash_point("mount: a request is read");
}

/* An inode of the last broker without a node may be any control file. */
static const char *file_name(struct view *view, uint64_t id)
{
	struct node node;

	if (tree_node(view, id, &node) < 0 || node.row->kind == NODE_CONTROL)
		return "control";
	return node.row->name[0] ? node.row->name : "folder";
}

/*
 * Nobody waits for these answers, and the files and nodes must be let go of in any case.
 */
static bool is_an_end(uint32_t opcode)
{
	return opcode == FUSE_RELEASE || opcode == FUSE_RELEASEDIR ||
	       opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET ||
	       opcode == FUSE_INTERRUPT || opcode == FUSE_INIT || opcode == FUSE_DESTROY;
}

/* Returns: the sentence for the caller; NULL: the request is handled as any other. */
static const char *why_not_again(struct view *view, const struct fuse_in_header *header)
{
	if (!request_may_repeat(header->opcode))
		return "the broker died while this was under way: look whether it was "
		       "done";
	if (is_an_end(header->opcode) ||
	    broker_try_again(view->broker, transport_unique()))
		return NULL;
	if (header->opcode == FUSE_OPEN)
		file_lease_close_unanswered(view, transport_unique());
	return "two brokers died while this was under way, and it is not tried again";
}

bool takeover_refuse(struct fuse_session *session, struct view *view,
		     const struct fuse_buf *request)
{
	const struct fuse_in_header *header = request->mem;
	const struct fuse_out_header answer = {
		.len = sizeof(answer),
		.error = -EIO,
		.unique = header->unique,
	};
	const struct caller caller = { .uid = header->uid,
				       .gid = header->gid,
				       .pid = (pid_t)header->pid };
	const char *why = why_not_again(view, header);
	ssize_t sent;

	if (!why)
		return false;
	broker_fail(view->broker, &caller, file_name(view, header->nodeid), EIO, "%s",
		    why);
	crash_point("mount: before a request is refused");
	sent = write(fuse_session_fd(session), &answer, sizeof(answer));
	(void)sent; /* the caller may have gone */
	crash_request_answered(header->unique);
	return true;
}
