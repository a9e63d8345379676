/* SPDX-License-Identifier: MIT */
/*
 * Control files: each descriptor has an answer of its own and acts as the opener. The
 * broker has the rules of lines (api/control_file.h); here is only the descriptor.
 */
#include "api/control_file.h"
#include "base/def.h"
#include "file.h"
#include "view.h"

#include <errno.h>

struct line_file {
	struct file file;
	struct control *control;
};

static void reply_answer(struct line_file *line, fuse_req_t req, size_t size)
{
	_cleanup_free_ char *bytes = malloc(size ? size : 1);

	if (!bytes)
		reply_error(req, -ENOMEM);
	else
		fuse_reply_buf(req, bytes, control_read(line->control, bytes, size));
}

static void on_state(struct request *request, int error, const void *bytes, size_t length)
{
	struct line_file *line = request->context;

	if (!error)
		error = control_tell_state(line->control, bytes, length);
	if (error) {
		reply_error(request->req, error);
		return;
	}
	reply_answer(line, request->req, request->size);
}

static void line_read(struct file *file, fuse_req_t req, size_t size, off_t offset,
		      const struct fuse_file_info *info)
{
	struct line_file *line = container_of(file, struct line_file, file);
	struct request *request;

	(void)offset;
	(void)info;
	if (!control_wants_state(line->control)) {
		reply_answer(line, req, size);
		return;
	}
	request = request_new(file->view, req, on_state);
	if (!request)
		return;
	request->context = line;
	request->size = size;
	control_ask_state(line->control, &request->wait);
	request_wait(request);
}

static void line_write(struct file *file, fuse_req_t req, const char *bytes, size_t size,
		       off_t offset, const struct fuse_file_info *info)
{
	struct line_file *line = container_of(file, struct line_file, file);
	struct request *request = request_new(file->view, req, request_reply_written);

	(void)offset;
	(void)info;
	if (!request)
		return;
	control_write(line->control, fuse_req_ctx(req)->pid, bytes, size, &request->wait);
	request_wait(request);
}

static void line_sync(struct file *file, fuse_req_t req)
{
	struct line_file *line = container_of(file, struct line_file, file);
	struct request *request = request_new(file->view, req, request_reply_error);

	if (!request)
		return;
	request->closes = true;
	control_flush(line->control, &request->wait);
	request_wait(request);
}

static void line_free(struct file *file, fuse_req_t req)
{
	(void)req;
	control_free(container_of(file, struct line_file, file)->control);
}

static const struct file_type line_type = {
	.read = line_read,
	.write = line_write,
	.sync = line_sync,
	.free = line_free,
};

void file_control_open(struct view *view, fuse_req_t req, const struct node *node,
		       struct fuse_file_info *info)
{
	_cleanup_identity_ struct identity identity = { .caller = caller_of(req) };
	struct line_file *line = file_new(view, req, &line_type, sizeof(*line));
	int error = line ? 0 : -ENOMEM;

	/* A reader runs nothing: the groups are not worth a look into /proc. */
	if (!error && opened_for_writing(info))
		error = identity_init(&identity, req);
	if (!error)
		error = control_new(&line->control, view->broker, node->row->verb,
				    node->token, &identity.caller);
	if (error) {
		file_free(line ? &line->file : NULL, req);
		reply_error(req, error);
		return;
	}
	info->direct_io = 1;
	info->noflush = !opened_for_writing(info);
	file_reply(req, &line->file, info);
}
