/* SPDX-License-Identifier: MIT */
/*
 * Files that are written whole: `image` of a module, `tensors` of an allocation. The
 * broker gathers the writes to a descriptor (api/upload.h) and loads or stores them at
 * the first close(2) after a write.
 *
 * fsync(2) stores nothing, so it never fails; only close(2) reports errors of the load.
 *
 * An open(2) with O_TRUNC arrives as two requests of one thread: OPEN without the flag,
 * then SETATTR of size 0 without a descriptor. So that size goes to the newest descriptor
 * of the file that the thread opened for writing and that nothing has used yet.
 */
#include "api/upload.h"
#include "base/def.h"
#include "base/hash.h"
#include "file.h"
#include "view.h"

#include <errno.h>
#include <stdatomic.h>

struct upload_file {
	struct file file;
	struct upload *upload;
	uint64_t node_id;
	atomic_int
		opener; /* the writer's thread while in files->unused_uploads, else 0 */
	UT_hash_handle hh; /* key: opener */
};

/* Under files->lock. */
static void forget_locked(struct files *files, struct upload_file *written)
{
	if (!atomic_load(&written->opener))
		return;
	HASH_DEL(files->unused_uploads, written);
	atomic_store(&written->opener, 0);
}

static struct upload *upload_use(struct file *file)
{
	struct upload_file *written = container_of(file, struct upload_file, file);
	struct files *files = &file->view->files;

	if (atomic_load(&written->opener)) {
		pthread_mutex_lock(&files->lock);
		forget_locked(files, written);
		pthread_mutex_unlock(&files->lock);
	}
	return written->upload;
}

/* The descriptor takes the place of an earlier one that the thread never used. */
static void remember(struct files *files, struct upload_file *written, pid_t opener)
{
	struct upload_file *earlier;

	pthread_mutex_lock(&files->lock);
	HASH_FIND_INT(files->unused_uploads, &opener, earlier);
	if (earlier)
		forget_locked(files, earlier);
	atomic_store(&written->opener, opener);
	HASH_ADD(hh, files->unused_uploads, opener, sizeof(opener), written);
	pthread_mutex_unlock(&files->lock);
}

static void written_read(struct file *file, fuse_req_t req, size_t size, off_t offset,
			 const struct fuse_file_info *info)
{
	_cleanup_free_ char *bytes = NULL;
	long n = -ENOMEM;

	(void)info;
	if (file_reads_later(file->view, req, size))
		return;
	bytes = malloc(size ? size : 1);
	if (bytes)
		n = upload_read(upload_use(file), (uint64_t)offset, bytes, size);
	if (n < 0)
		reply_error(req, (int)n);
	else
		fuse_reply_buf(req, bytes, (size_t)n);
}

static void written_write(struct file *file, fuse_req_t req, const char *bytes,
			  size_t size, off_t offset, const struct fuse_file_info *info)
{
	struct upload *upload = upload_use(file);
	uint64_t at = (uint64_t)offset;
	int error;

	/* The size known to the kernel is the size of the last stored contents. */
	if (info->flags & O_APPEND)
		at = upload_size(upload);
	error = upload_write(upload, fuse_req_ctx(req)->pid, at, bytes, size);
	if (error)
		reply_error(req, error);
	else
		fuse_reply_write(req, size);
}

static void written_close(struct file *file, fuse_req_t req)
{
	struct request *request = request_new(file->view, req, request_reply_error);

	if (!request)
		return;
	request->closes = true;
	upload_flush(upload_use(file), fuse_req_ctx(req)->pid, &request->wait);
	request_wait(request);
}

/* All bytes are data, and the only hole is at the end. */
static void written_lseek(struct file *file, fuse_req_t req, off_t offset, int whence)
{
	uint64_t size = upload_size(upload_use(file));

	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		reply_error(req, -EINVAL);
	else if (offset < 0 || (uint64_t)offset >= size)
		reply_error(req, -ENXIO);
	else
		fuse_reply_lseek(req, whence == SEEK_DATA ? offset : (off_t)size);
}

static void written_free(struct file *file, fuse_req_t req)
{
	(void)req;
	upload_free(upload_use(file));
}

static const struct file_type written_type = {
	.read = written_read,
	.write = written_write,
	.close = written_close,
	.lseek = written_lseek,
	.free = written_free,
};

void file_upload_open(struct view *view, fuse_req_t req, const struct node *node,
		      struct fuse_file_info *info)
{
	struct upload_file *written =
		file_new(view, req, &written_type, sizeof(*written));
	bool writes = opened_for_writing(info);
	struct caller caller = caller_of(req);
	struct object_stat stat = { 0 };
	int error = written ? 0 : -ENOMEM;

	if (!error)
		error = broker_stat(view->broker, node->row->type, node->token, &stat);
	if (!error)
		error = file_refuse_sealed(view, req, node, info, &stat);
	if (!error)
		error = upload_new(&written->upload, view->broker, node->row->type,
				   node->token, &caller);
	if (error) {
		file_free(written ? &written->file : NULL, req);
		reply_error(req, error);
		return;
	}
	written->node_id = node_id(node);
	if (writes && caller.pid > 0)
		remember(&view->files, written, caller.pid);
	info->direct_io = 1;
	info->keep_cache = 1;
	info->noflush = !writes;
	file_reply(req, &written->file, info);
}

int file_upload_resize(struct file *file, fuse_req_t req, uint64_t size)
{
	if (file->type != &written_type)
		return 0;
	return upload_resize(upload_use(file), fuse_req_ctx(req)->pid, size);
}

/* Under files.lock, so that the descriptor isn't closed meanwhile. */
int file_upload_truncate(struct view *view, fuse_req_t req, const struct node *node)
{
	struct files *files = &view->files;
	pid_t pid = fuse_req_ctx(req)->pid;
	struct upload_file *written;
	int error = 0;

	pthread_mutex_lock(&files->lock);
	HASH_FIND_INT(files->unused_uploads, &pid, written);
	if (written && written->node_id == node_id(node)) {
		forget_locked(files, written);
		error = upload_resize(written->upload, pid, 0);
	}
	pthread_mutex_unlock(&files->lock);
	return error;
}
