/* SPDX-License-Identifier: MIT */
/*
 * Files of text. A read at offset 0 makes the text, and reads behind it go on in the same
 * text: however small the reads, a program gets one consistent text, and a descriptor
 * that is held can be read again. The files show no size and go past the page cache.
 *
 * A write to a writable attribute is the whole new value, and counts as the opener's: a
 * program of root writes to whatever file it got as its output.
 */
#include "base/def.h"
#include "base/shared_text.h"
#include "file.h"
#include "readme.h"
#include "view.h"

#include <errno.h>
#include <string.h>

/* Texts up to this are as little as the descriptor itself, and are not charged. */
#define SMALL_TEXT 4096

struct snapshot {
	struct file file;
	struct node node;
	struct identity
		identity; /* the opener's; groups only if it is open for writing */
	bool writable;

	pthread_mutex_t lock;
	struct shared_text *text; /* lock; made by the last read at offset 0; NULL: none */
	uint64_t charged; /* lock; bytes of the text that the opener is charged for */
};

/* ---- making the text ---- */

typedef int snapshot_make(const struct snapshot *snapshot, struct text *text);

static int make_readme(const struct snapshot *snapshot, struct text *text)
{
	(void)snapshot;
	readme_print(text);
	return 0;
}

static int make_shown(const struct snapshot *snapshot, struct text *text)
{
	const struct node *node = &snapshot->node;

	return broker_show(snapshot->file.view->broker,
			   node_is_fixed(node) ? OBJECT_BROKER : node->row->type,
			   node->token, node->row->attribute, text);
}

static int make_errors(const struct snapshot *snapshot, struct text *text)
{
	broker_errors(snapshot->file.view->broker, &snapshot->identity.caller, text);
	return 0;
}

static int make_events(const struct snapshot *snapshot, struct text *text)
{
	broker_events(snapshot->file.view->broker, text);
	return 0;
}

static snapshot_make *const makers[N_NODE_KINDS] = {
	[NODE_README] = make_readme,   [NODE_STATUS] = make_shown,
	[NODE_ATTRIBUTE] = make_shown, [NODE_ERRORS] = make_errors,
	[NODE_EVENTS] = make_events,
};

/* Charges the opener for a text in place of the last. Returns: 0; -ENOMEM, -EDQUOT.
 * Called with the lock. */
static int charge(struct snapshot *snapshot, size_t length)
{
	uint64_t now = length > SMALL_TEXT ? length : 0;
	_cleanup_text_ struct text file = TEXT_INIT;
	int error;

	if (now == snapshot->charged)
		return 0;
	file_path(snapshot->file.view, &snapshot->node, &file);
	error = broker_text_charge(snapshot->file.view->broker,
				   &snapshot->identity.caller, text_string(&file),
				   snapshot->charged, now);
	if (!error)
		snapshot->charged = now;
	return error;
}

/* Takes a reference to the text. Returns: 0; -ENOMEM, -EDQUOT. */
static int snapshot_take(struct snapshot *snapshot, struct shared_text *text)
{
	int error;

	if (text_failed(&text->text))
		return -ENOMEM;
	pthread_mutex_lock(&snapshot->lock);
	error = charge(snapshot, text->text.length);
	if (!error) {
		shared_text_unref(snapshot->text);
		snapshot->text = shared_text_ref(text);
	}
	pthread_mutex_unlock(&snapshot->lock);
	return error;
}

/* Makes the text. Returns: 0; -errno. */
static int snapshot_fill(struct snapshot *snapshot)
{
	_cleanup_shared_text_ struct shared_text *text = shared_text_new();
	int error = -ENOMEM;

	if (text)
		error = makers[snapshot->node.row->kind](snapshot, &text->text);
	return error ? error : snapshot_take(snapshot, text);
}

/* ---- descriptors ---- */

/* With a reference: a reader that has its answer may close the file before the reply has
 * returned here. */
static void reply_part(struct snapshot *snapshot, fuse_req_t req, size_t size,
		       off_t offset)
{
	_cleanup_shared_text_ struct shared_text *text = NULL;
	size_t from;

	pthread_mutex_lock(&snapshot->lock);
	text = shared_text_ref(snapshot->text);
	pthread_mutex_unlock(&snapshot->lock);
	from = MIN((size_t)offset, text->text.length);
	fuse_reply_buf(req, text_string(&text->text) + from,
		       MIN(size, text->text.length - from));
}

static void on_asked(struct request *request, int error, const void *bytes, size_t length)
{
	_cleanup_shared_text_ struct shared_text *text = NULL;

	if (!error && request->wait.shared) {
		text = shared_text_ref(request->wait.shared);
	} else if (!error) {
		text = shared_text_new();
		if (text)
			text_add(&text->text, bytes, length);
	}
	if (!error)
		error = text ? snapshot_take(request->context, text) : -ENOMEM;
	if (error)
		reply_error(request->req, error);
	else
		reply_part(request->context, request->req, request->size,
			   request->offset);
}

/* A worker or the driver makes the text. */
static void ask(struct snapshot *snapshot, fuse_req_t req, size_t size, off_t offset)
{
	struct view *view = snapshot->file.view;
	const struct node *node = &snapshot->node;
	struct request *request = request_new(view, req, on_asked);
	struct caller caller = snapshot->identity.caller;

	if (!request)
		return;
	caller.pid = fuse_req_ctx(req)->pid;
	request->context = snapshot;
	request->size = size;
	request->offset = offset;
	broker_ask(view->broker, node->token, node->row->attribute, &caller,
		   &request->wait);
	request_wait(request);
}

static bool is_asked(const struct node *node)
{
	return node->row->attribute && node->row->attribute->flags & ATTRIBUTE_ASKED;
}

static void snapshot_read(struct file *file, fuse_req_t req, size_t size, off_t offset,
			  const struct fuse_file_info *info)
{
	struct snapshot *snapshot = container_of(file, struct snapshot, file);
	const struct node *node = &snapshot->node;
	bool goes_on;
	int error = 0;

	(void)info;
	pthread_mutex_lock(&snapshot->lock);
	goes_on = offset > 0 && snapshot->text;
	pthread_mutex_unlock(&snapshot->lock);
	if (!goes_on && is_asked(node)) {
		ask(snapshot, req, size, offset);
		return;
	}
	if (!goes_on)
		error = snapshot_fill(snapshot);
	if (error)
		reply_error(req, error);
	else
		reply_part(snapshot, req, size, offset);
}

/* The broker keeps the value on a disk. */
static void store(struct snapshot *snapshot, fuse_req_t req, const struct caller *caller,
		  const char *bytes, size_t size)
{
	struct view *view = snapshot->file.view;
	const struct node *node = &snapshot->node;
	struct request *request = request_new(view, req, request_reply_written);

	if (!request)
		return;
	node->row->attribute->store(view->broker, node->token, caller, bytes, size,
				    &request->wait);
	request_wait(request);
}

static void snapshot_write(struct file *file, fuse_req_t req, const char *bytes,
			   size_t size, off_t offset, const struct fuse_file_info *info)
{
	struct snapshot *snapshot = container_of(file, struct snapshot, file);
	const struct node *node = &snapshot->node;
	struct caller caller = snapshot->identity.caller;
	int error = snapshot->writable ? 0 : -EACCES;

	(void)offset;
	(void)info;
	caller.pid = fuse_req_ctx(req)->pid;
	if (!error && node->row->attribute->store) {
		store(snapshot, req, &caller, bytes, size);
		return;
	}
	if (!error)
		error = broker_store(file->view->broker, node->row->type, node->token,
				     node->row->attribute, &caller, bytes, size);
	if (error)
		reply_error(req, error);
	else
		fuse_reply_write(req, size);
}

static void snapshot_free(struct file *file, fuse_req_t req)
{
	struct snapshot *snapshot = container_of(file, struct snapshot, file);

	(void)req;
	(void)charge(snapshot, 0);
	shared_text_unref(snapshot->text);
	identity_deinit(&snapshot->identity);
	pthread_mutex_destroy(&snapshot->lock);
}

static const struct file_type snapshot_type = {
	.read = snapshot_read,
	.write = snapshot_write,
	.free = snapshot_free,
};

/* ---- opening ---- */

void file_text_open(struct view *view, fuse_req_t req, const struct node *node,
		    struct fuse_file_info *info)
{
	unsigned int flags = node->row->attribute ? node->row->attribute->flags : 0;
	bool writable = flags & ATTRIBUTE_WRITABLE;
	_cleanup_identity_ struct identity identity = { .caller = caller_of(req) };
	struct snapshot *snapshot = NULL;
	struct object_stat object;
	int error = 0;

	if (opened_for_writing(info) && !writable)
		error = -EACCES;
	else if (!node_is_fixed(node))
		error = broker_stat(view->broker, node->row->type, node->token, &object);
	if (!error && opened_for_writing(info))
		error = identity_init(&identity, req);
	if (!error) {
		snapshot = file_new(view, req, &snapshot_type, sizeof(*snapshot));
		error = snapshot ? 0 : -ENOMEM;
	}
	if (error) {
		reply_error(req, error);
		return;
	}
	snapshot->node = *node;
	snapshot->identity = identity;
	identity = (struct identity){ 0 };
	snapshot->writable = writable;
	pthread_mutex_init(&snapshot->lock, NULL);
	info->direct_io = 1;
	info->noflush = 1;
	file_reply(req, &snapshot->file, info);
}
