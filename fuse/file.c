/* SPDX-License-Identifier: MIT */
#include "file.h"

#include "base/crash.h"
#include "base/def.h"
#include "base/subordinates.h"
#include "transport.h"
#include "view.h"

#include <errno.h>

void files_init(struct files *files, uint32_t *generations_end)
{
	*files = (struct files){ .lock = PTHREAD_MUTEX_INITIALIZER };
	handle_table_init(&files->open);
	handle_table_begin(&files->open, generations_end);
}

void files_deinit(struct files *files)
{
	struct file *file;

	for (uint32_t slot = 0; (file = handle_table_next(&files->open, &slot)); slot++)
		file_free(file, NULL);
	handle_table_deinit(&files->open);
	pthread_mutex_destroy(&files->lock);
}

void file_path(const struct view *view, const struct node *node, struct text *path)
{
	const struct node_row *fixed = nodes_fixed(&(size_t){ 0 });

	if (!node_is_fixed(node))
		(void)broker_path(view->broker, node->row->type, node->token, path);
	else if (node->row->parent)
		text_printf(path, "%s", fixed[node->row->parent].name);
	text_printf(path, "%s%s", path->length ? "/" : "", node->row->name);
}

/* ---- the share of open files ---- */

/* NULL: the user has no file open. Called with the lock. */
static struct opener *opener_find(const struct files *files, uid_t uid)
{
	struct opener *opener;

	HASH_FIND(hh, files->openers, &uid, sizeof(uid), opener);
	return opener;
}

/* NULL: no memory. Called with the lock. */
static struct opener *opener_charge(struct files *files, uid_t uid)
{
	struct opener *opener = opener_find(files, uid);

	if (!opener) {
		opener = calloc(1, sizeof(*opener));
		if (!opener)
			return NULL;
		opener->uid = uid;
		HASH_ADD(hh, files->openers, uid, sizeof(opener->uid), opener);
	}
	opener->n_open++;
	return opener;
}

static void opener_discharge(struct files *files, struct opener *opener)
{
	if (--opener->n_open)
		return;
	HASH_DEL(files->openers, opener);
	free(opener);
}

static void tell_refused(struct view *view, fuse_req_t req, const struct node *node)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	const struct caller caller = { .uid = ctx->uid,
				       .gid = ctx->gid,
				       .pid = ctx->pid };
	_cleanup_text_ struct text path = TEXT_INIT;

	file_path(view, node, &path);
	broker_fail(
		view->broker, &caller, text_string(&path), EMFILE,
		"uid %u has %u files of the mount open and asks for 1 more: the limit "
		"is %u",
		ctx->uid, FILES_OF_USER_MAX, FILES_OF_USER_MAX);
}

int files_allow(struct view *view, fuse_req_t req, const struct node *node)
{
	struct files *files = &view->files;
	const struct opener *opener;
	bool allowed;

	pthread_mutex_lock(&files->lock);
	opener = opener_find(files, fuse_req_ctx(req)->uid);
	allowed = !opener || opener->n_open < FILES_OF_USER_MAX;
	pthread_mutex_unlock(&files->lock);
	if (!allowed)
		tell_refused(view, req, node);
	return allowed ? 0 : -EMFILE;
}

/* ---- files ---- */

/* Charges the user, and puts the file into the table: anew, or where it was. */
static int file_add(struct file *file, uid_t uid, bool restored)
{
	struct files *files = &file->view->files;
	int r = -ENOMEM;

	pthread_mutex_lock(&files->lock);
	file->opener = opener_charge(files, uid);
	if (file->opener && restored)
		r = handle_table_put(&files->open, file, file->slot,
				     file->slot_generation);
	else if (file->opener)
		r = handle_table_add(&files->open, file, &file->slot,
				     &file->slot_generation);
	if (r < 0 && file->opener)
		opener_discharge(files, file->opener);
	pthread_mutex_unlock(&files->lock);
	/* The descriptor of another file would be stale. */
	if (r == 0 && !file->type->outlives)
		crash_hold();
	return r;
}

void *file_new(struct view *view, fuse_req_t req, const struct file_type *type,
	       size_t size)
{
	struct file *file = calloc(1, size);

	if (!file)
		return NULL;
	file->type = type;
	file->view = view;
	if (file_add(file, fuse_req_ctx(req)->uid, false) < 0) {
		free(file);
		return NULL;
	}
	return file;
}

void *file_restore(struct view *view, uid_t uid, uint64_t handle,
		   const struct file_type *type, size_t size)
{
	struct file *file = calloc(1, size);

	if (!file)
		return NULL;
	file->type = type;
	file->view = view;
	file->slot = (uint32_t)handle;
	file->slot_generation = (uint32_t)(handle >> 32);
	if (file_add(file, uid, true) < 0) {
		free(file);
		return NULL;
	}
	return file;
}

uint64_t file_handle(const struct file *file)
{
	return (uint64_t)file->slot_generation << 32 | file->slot;
}

struct file *file_of(struct view *view, const struct fuse_file_info *info)
{
	struct file *file;

	pthread_mutex_lock(&view->files.lock);
	file = handle_table_get(&view->files.open, (uint32_t)info->fh,
				(uint32_t)(info->fh >> 32));
	pthread_mutex_unlock(&view->files.lock);
	return file;
}

struct file *file_free(struct file *file, fuse_req_t req)
{
	struct files *files;

	if (!file)
		return NULL;
	files = &file->view->files;
	pthread_mutex_lock(&files->lock);
	handle_table_remove(&files->open, file->slot);
	opener_discharge(files, file->opener);
	pthread_mutex_unlock(&files->lock);
	if (file->type->free)
		file->type->free(file, req);
	/* A file of `tensors` that was cut to nothing takes effect there. */
	if (!file->type->outlives)
		crash_let_go();
	free(file);
	return NULL;
}

int file_refuse_sealed(struct view *view, fuse_req_t req, const struct node *node,
		       const struct fuse_file_info *info, const struct object_stat *stat)
{
	struct caller caller = caller_of(req);

	if (!stat->sealed || !opened_for_writing(info))
		return 0;
	return broker_refuse_sealed(view->broker, &caller, node->token, node->row->name);
}

bool file_reads_later(struct view *view, fuse_req_t req, size_t size)
{
	uint64_t user =
		subordinates_user(view->groups.subordinates, fuse_req_ctx(req)->uid);

	if (transport_is_put_off(TRANSPORT_BULK) || !transport_is_in_the_way(size) ||
	    !transport_put_off(TRANSPORT_BULK, user))
		return false;
	fuse_reply_none(req);
	return true;
}

void file_reply(fuse_req_t req, struct file *file, struct fuse_file_info *info)
{
	info->fh = file_handle(file);
	if (fuse_reply_open(req, info) == -ENOENT)
		file_free(file, NULL);
}
