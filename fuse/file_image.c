/* SPDX-License-Identifier: MIT */
/*
 * image: the code of a module. The broker gathers the writes to a descriptor
 * (api/image_file.h) and loads the image at the first close(2) after a write.
 *
 * fsync(2) does not load, so it never fails; only close(2) reports errors of the load.
 *
 * An open(2) with O_TRUNC arrives as two requests of one thread: OPEN without the flag,
 * then SETATTR of size 0 without a descriptor. So that size goes to the newest descriptor
 * of the image that the thread opened for writing and that nothing has used yet.
 */
#include "api/image_file.h"
#include "base/def.h"
#include "file.h"
#include "view.h"

#include <errno.h>
#include <stdatomic.h>
#include <uthash.h>

struct image_file {
	struct file file;
	struct upload *upload;
	uint64_t node_id;
	atomic_int opener; /* the writer's thread while in files->unused_images, else 0 */
	UT_hash_handle hh; /* key: opener */
};

/* Under files->lock. */
static void forget_locked(struct files *files, struct image_file *image)
{
	if (!atomic_load(&image->opener))
		return;
	HASH_DEL(files->unused_images, image);
	atomic_store(&image->opener, 0);
}

static struct upload *upload_use(struct file *file)
{
	struct image_file *image = container_of(file, struct image_file, file);
	struct files *files = &file->view->files;

	if (atomic_load(&image->opener)) {
		pthread_mutex_lock(&files->lock);
		forget_locked(files, image);
		pthread_mutex_unlock(&files->lock);
	}
	return image->upload;
}

/* The descriptor takes the place of an earlier one that the thread never used. */
static void remember(struct files *files, struct image_file *image, pid_t opener)
{
	struct image_file *earlier;

	pthread_mutex_lock(&files->lock);
	HASH_FIND_INT(files->unused_images, &opener, earlier);
	if (earlier)
		forget_locked(files, earlier);
	atomic_store(&image->opener, opener);
	HASH_ADD(hh, files->unused_images, opener, sizeof(opener), image);
	pthread_mutex_unlock(&files->lock);
}

static void image_read(struct file *file, fuse_req_t req, size_t size, off_t offset,
		       const struct fuse_file_info *info)
{
	_cleanup_free_ char *bytes = malloc(size ? size : 1);
	long n = -ENOMEM;

	(void)info;
	if (bytes)
		n = upload_read(upload_use(file), (uint64_t)offset, bytes, size);
	if (n < 0)
		reply_error(req, (int)n);
	else
		fuse_reply_buf(req, bytes, (size_t)n);
}

static void image_write(struct file *file, fuse_req_t req, const char *bytes, size_t size,
			off_t offset, const struct fuse_file_info *info)
{
	struct upload *upload = upload_use(file);
	uint64_t at = (uint64_t)offset;
	int error;

	/* The size known to the kernel is the size of the last loaded image. */
	if (info->flags & O_APPEND)
		at = upload_size(upload);
	error = upload_write(upload, fuse_req_ctx(req)->pid, at, bytes, size);
	if (error)
		reply_error(req, error);
	else
		fuse_reply_write(req, size);
}

static void image_close(struct file *file, fuse_req_t req)
{
	struct request *request = request_new(file->view, req, request_reply_error);

	if (!request)
		return;
	request->closes = true;
	upload_flush(upload_use(file), fuse_req_ctx(req)->pid, &request->wait);
	request_wait(request);
}

/* All bytes are data, and the only hole is at the end. */
static void image_lseek(struct file *file, fuse_req_t req, off_t offset, int whence)
{
	uint64_t size = upload_size(upload_use(file));

	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		reply_error(req, -EINVAL);
	else if (offset < 0 || (uint64_t)offset >= size)
		reply_error(req, -ENXIO);
	else
		fuse_reply_lseek(req, whence == SEEK_DATA ? offset : (off_t)size);
}

static void image_free(struct file *file, fuse_req_t req)
{
	(void)req;
	upload_free(upload_use(file));
}

static const struct file_type image_type = {
	.cached = true,
	.read = image_read,
	.write = image_write,
	.close = image_close,
	.lseek = image_lseek,
	.free = image_free,
};

void file_image_open(struct view *view, fuse_req_t req, const struct node *node,
		     struct fuse_file_info *info)
{
	struct image_file *image = file_new(view, &image_type, sizeof(*image));
	bool writes = opened_for_writing(info);
	struct caller caller = caller_of(req);
	int error = image ? 0 : -ENOMEM;

	if (!error)
		error = upload_new(&image->upload, view->broker, node->token, &caller);
	if (error) {
		file_free(image ? &image->file : NULL, req);
		reply_error(req, error);
		return;
	}
	image->node_id = node_id(node);
	if (writes && caller.pid > 0)
		remember(&view->files, image, caller.pid);
	info->direct_io = 1;
	info->noflush = !writes;
	file_reply(req, &image->file, info);
}

int file_image_resize(struct file *file, fuse_req_t req, uint64_t size)
{
	if (file->type != &image_type)
		return 0;
	return upload_resize(upload_use(file), fuse_req_ctx(req)->pid, size);
}

/* Under files.lock, so that the descriptor isn't closed meanwhile. */
int file_image_truncate(struct view *view, fuse_req_t req, const struct node *node)
{
	struct files *files = &view->files;
	pid_t pid = fuse_req_ctx(req)->pid;
	struct image_file *image;
	int error = 0;

	pthread_mutex_lock(&files->lock);
	HASH_FIND_INT(files->unused_images, &pid, image);
	if (image && image->node_id == node_id(node)) {
		forget_locked(files, image);
		error = upload_resize(image->upload, pid, 0);
	}
	pthread_mutex_unlock(&files->lock);
	return error;
}
