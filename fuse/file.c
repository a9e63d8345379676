/* SPDX-License-Identifier: MIT */
#include "file.h"

#include "base/def.h"
#include "view.h"

#include <errno.h>
#include <utlist.h>

void files_init(struct files *files)
{
	*files = (struct files){ .lock = PTHREAD_MUTEX_INITIALIZER };
}

void files_deinit(struct files *files)
{
	while (files->open)
		file_free(files->open, NULL);
	pthread_mutex_destroy(&files->lock);
}

void *file_new(struct view *view, const struct file_type *type, size_t size)
{
	struct files *files = &view->files;
	struct file *file = calloc(1, size);

	if (!file)
		return NULL;
	file->type = type;
	file->view = view;
	pthread_mutex_lock(&files->lock);
	DL_APPEND(files->open, file);
	pthread_mutex_unlock(&files->lock);
	return file;
}

struct file *file_free(struct file *file, fuse_req_t req)
{
	struct files *files;

	if (!file)
		return NULL;
	files = &file->view->files;
	pthread_mutex_lock(&files->lock);
	DL_DELETE(files->open, file);
	pthread_mutex_unlock(&files->lock);
	if (file->type->free)
		file->type->free(file, req);
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

void file_reply(fuse_req_t req, struct file *file, struct fuse_file_info *info)
{
	info->fh = (uintptr_t)file;
	if (fuse_reply_open(req, info) == -ENOENT)
		file_free(file, NULL);
}
