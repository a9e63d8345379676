/* SPDX-License-Identifier: MIT */
/*
 * Files of text: what they say is made when they are opened, so that however small the
 * reads, one consistent text is read. They show no size and go past the page cache.
 *
 * A writable attribute takes each write as the whole new value.
 */
#include "base/def.h"
#include "file.h"
#include "readme.h"
#include "view.h"

#include <errno.h>
#include <string.h>

struct snapshot {
	struct file file;
	struct text text;
	struct node node;
	bool writable;
};

/* ---- what they say ---- */

typedef int snapshot_make(struct view *view, fuse_req_t req, const struct node *node,
			  struct text *text);

static int make_readme(struct view *view, fuse_req_t req, const struct node *node,
		       struct text *text)
{
	(void)view;
	(void)req;
	(void)node;
	readme_print(text);
	return 0;
}

static int make_shown(struct view *view, fuse_req_t req, const struct node *node,
		      struct text *text)
{
	(void)req;
	return broker_show(view->broker,
			   node_is_fixed(node) ? OBJECT_BROKER : node->row->type,
			   node->token, node->row->attribute, text);
}

static int make_errors(struct view *view, fuse_req_t req, const struct node *node,
		       struct text *text)
{
	struct caller caller = caller_of(req);

	(void)node;
	broker_errors(view->broker, &caller, text);
	return 0;
}

static int make_events(struct view *view, fuse_req_t req, const struct node *node,
		       struct text *text)
{
	(void)req;
	(void)node;
	broker_events(view->broker, text);
	return 0;
}

static snapshot_make *const makers[N_NODE_KINDS] = {
	[NODE_README] = make_readme,   [NODE_STATUS] = make_shown,
	[NODE_ATTRIBUTE] = make_shown, [NODE_ERRORS] = make_errors,
	[NODE_EVENTS] = make_events,
};

/* ---- descriptors ---- */

/* What is answered is a copy: a reader that has its answer may close the file before
 * the reply has returned here. */
static void snapshot_read(struct file *file, fuse_req_t req, size_t size, off_t offset,
			  const struct fuse_file_info *info)
{
	struct snapshot *snapshot = container_of(file, struct snapshot, file);
	const char *text = text_string(&snapshot->text);
	size_t from = MIN((size_t)offset, snapshot->text.length);
	size_t length = MIN(size, snapshot->text.length - from);
	_cleanup_free_ char *bytes = malloc(length + 1);

	(void)info;
	if (!bytes) {
		reply_error(req, -ENOMEM);
		return;
	}
	memcpy(bytes, text + from, length);
	fuse_reply_buf(req, bytes, length);
}

static void snapshot_write(struct file *file, fuse_req_t req, const char *bytes,
			   size_t size, off_t offset, const struct fuse_file_info *info)
{
	struct snapshot *snapshot = container_of(file, struct snapshot, file);
	const struct node *node = &snapshot->node;
	_cleanup_identity_ struct identity identity = { 0 };
	int error;

	(void)offset;
	(void)info;
	error = snapshot->writable ? identity_init(&identity, req) : -EACCES;
	if (!error)
		error = broker_store(file->view->broker, node->row->type, node->token,
				     node->row->attribute, &identity.caller, bytes, size);
	if (error)
		reply_error(req, error);
	else
		fuse_reply_write(req, size);
}

static void snapshot_free(struct file *file, fuse_req_t req)
{
	(void)req;
	text_deinit(&container_of(file, struct snapshot, file)->text);
}

static const struct file_type snapshot_type = {
	.read = snapshot_read,
	.write = snapshot_write,
	.free = snapshot_free,
};

/* ---- opening ---- */

static void on_asked(struct request *request, int error, const void *bytes, size_t length)
{
	struct snapshot *snapshot = request->context;

	if (!error)
		text_add(&snapshot->text, bytes, length);
	if (!error && text_failed(&snapshot->text))
		error = -ENOMEM;
	if (!error) {
		file_reply(request->req, &snapshot->file, &request->info);
		return;
	}
	file_free(&snapshot->file, request->req);
	reply_error(request->req, error);
}

/* The worker answers, and that opens the file. */
static void ask(struct snapshot *snapshot, fuse_req_t req,
		const struct fuse_file_info *info)
{
	struct view *view = snapshot->file.view;
	const struct node *node = &snapshot->node;
	struct request *request = request_new(view, req, on_asked);
	struct caller caller = caller_of(req);

	if (!request) {
		file_free(&snapshot->file, NULL);
		return;
	}
	request->context = snapshot;
	request->info = *info;
	broker_ask(view->broker, node->token, node->row->attribute, &caller,
		   &request->wait);
	request_wait(request);
}

void snapshot_open(struct view *view, fuse_req_t req, const struct node *node,
		   struct fuse_file_info *info)
{
	unsigned int flags = node->row->attribute ? node->row->attribute->flags : 0;
	bool writable = flags & ATTRIBUTE_WRITABLE;
	struct snapshot *snapshot;
	int error = 0;

	if (opened_for_writing(info) && !writable) {
		reply_error(req, -EACCES);
		return;
	}
	snapshot = file_new(view, &snapshot_type, sizeof(*snapshot));
	if (!snapshot) {
		reply_error(req, -ENOMEM);
		return;
	}
	snapshot->node = *node;
	snapshot->writable = writable;
	info->direct_io = 1;
	info->noflush = 1;
	if (flags & ATTRIBUTE_ASKED) {
		ask(snapshot, req, info);
		return;
	}
	if (opened_for_reading(info))
		error = makers[node->row->kind](view, req, node, &snapshot->text);
	if (!error && text_failed(&snapshot->text))
		error = -ENOMEM;
	if (!error) {
		file_reply(req, &snapshot->file, info);
		return;
	}
	file_free(&snapshot->file, req);
	reply_error(req, error);
}
