/* SPDX-License-Identifier: MIT */
/*
 * data: the bytes of an allocation. Every access may wait for a GPU and is left to the
 * broker; a descriptor acts as its opener.
 *
 * Writes are answered before they reach the memory: close(2) and fsync(2) of a descriptor
 * report their failures, and those of fallocate(2) and copy_file_range(2). O_TRUNC comes
 * as a SETATTR right after OPEN, which is answered when the zeros have their place.
 *
 * The size never changes: appending writes past the end, and a plain fallocate(2) inside
 * the file has nothing to do.
 */
#include "base/def.h"
#include "base/number.h"
#include "file.h"
#include "kernel.h"
#include "transport.h"
#include "view.h"

#include <errno.h>
#include <linux/falloc.h>
#include <stdatomic.h>

struct data_file {
	struct file file;
	struct writer writer;
	struct identity identity;
	bool host;	     /* host memory, which this process copies itself */
	bool mapped;	     /* holds an open of the mapping */
	atomic_bool opening; /* counted by broker_note_opening() */
	atomic_bool wrote;   /* since the last close of the descriptor or a duplicate */
	atomic_bool refused; /* the journal knows of a read for the kernel's pages */
};

static struct data_file *data_of(struct file *file)
{
	return container_of(file, struct data_file, file);
}

/* The opener, with the pid of the caller. */
static struct caller data_caller(const struct data_file *data, fuse_req_t req)
{
	struct caller caller = data->identity.caller;

	caller.pid = fuse_req_ctx(req)->pid;
	return caller;
}

/* Notes a failure found here, not by the broker, in the journal. */
static void data_fail(const struct data_file *data, fuse_req_t req, int error,
		      const char *sentence)
{
	struct broker *broker = data->file.view->broker;
	struct caller caller = data_caller(data, req);
	_cleanup_text_ struct text file = TEXT_INIT;

	(void)broker_path(broker, OBJECT_ALLOCATION, data->writer.token, &file);
	text_printf(&file, "/data");
	broker_fail(broker, &caller, text_string(&file), error, "%s", sentence);
}

/* Returns: 0 and the size; -ESTALE. */
static int data_size(const struct data_file *data, uint64_t *ret_size)
{
	struct object_stat stat;
	int error;

	error = broker_stat(data->file.view->broker, OBJECT_ALLOCATION,
			    data->writer.token, &stat);
	if (error)
		return error;
	*ret_size = stat.size;
	return 0;
}

static void data_read(struct file *file, fuse_req_t req, size_t size, off_t offset,
		      const struct fuse_file_info *info)
{
	struct data_file *data = data_of(file);
	struct caller caller = data_caller(data, req);
	struct request *request;

	(void)info;
	/* Bytes of other memory come from the mover, which has turns of its own. */
	if (data->host && file_reads_later(file->view, req, size))
		return;
	request = request_new(file->view, req, request_reply_bytes);
	if (!request)
		return;
	broker_read(file->view->broker, data->writer.token, &caller, offset, size,
		    &request->wait);
	request_wait(request);
}

/*
 * The kernel asks for no leave to map a file, only for pages: a program with a private
 * mapping is told here, and dies of SIGBUS. sendfile(2) and readahead(2) look the same. A
 * shared mapping of a file without passthrough is ENODEV, and no request comes.
 */
static void data_refuse(struct file *file, fuse_req_t req)
{
	struct data_file *data = data_of(file);

	if (!atomic_exchange(&data->refused, true))
		data_fail(data, req, EINVAL,
			  "these bytes have no pages for mmap, sendfile or splice: use "
			  "read() or `gpumem get NAME FILE`; a program maps device and "
			  "host memory with gpumem.map() or a lease");
	reply_error(req, -EINVAL);
}

static void data_write(struct file *file, fuse_req_t req, const char *bytes, size_t size,
		       off_t offset, const struct fuse_file_info *info)
{
	struct data_file *data = data_of(file);
	struct caller caller = data_caller(data, req);
	struct request *request;

	(void)info;
	if (!transport_buffer()) {
		data_fail(data, req, ENOMEM,
			  "the broker has no memory to take the bytes; write them again");
		reply_error(req, -ENOMEM);
		return;
	}
	request = request_new(file->view, req, request_reply_written);
	if (!request)
		return;
	atomic_store(&data->wrote, true);
	broker_write(file->view->broker, &data->writer, &caller, offset, bytes, size,
		     transport_buffer(), &request->wait);
	request_wait(request);
}

/*
 * fsync(2). The kernel holds the lock of the file meanwhile, which writers wait for, deaf
 * to signals: the descriptor waits for its own writes and for nothing else.
 */
static void data_sync(struct file *file, fuse_req_t req)
{
	struct data_file *data = data_of(file);
	struct caller caller = data_caller(data, req);
	struct request *request = request_new(file->view, req, request_reply_error);

	if (!request)
		return;
	request->closes = true;
	broker_sync(file->view->broker, &data->writer, &caller, &request->wait);
	request_wait(request);
}

/* From the first close on, or the end, the kernel knows of the open. */
static void data_opened(struct data_file *data)
{
	if (atomic_exchange(&data->opening, false))
		broker_note_opened(data->file.view->broker, data->writer.token);
}

/* Closing a duplicate, as dd does after opening, waits for nothing. */
static void data_close(struct file *file, fuse_req_t req)
{
	data_opened(data_of(file));
	if (atomic_exchange(&data_of(file)->wrote, false))
		data_sync(file, req);
	else
		reply_error(req, 0);
}

/* All bytes are data, and the only hole is at the end. */
static void data_lseek(struct file *file, fuse_req_t req, off_t offset, int whence)
{
	uint64_t size;
	int error = data_size(data_of(file), &size);

	if (!error && whence != SEEK_DATA && whence != SEEK_HOLE)
		error = -EINVAL;
	if (!error && (offset < 0 || (uint64_t)offset >= size))
		error = -ENXIO;
	if (error)
		reply_error(req, error);
	else
		fuse_reply_lseek(req, whence == SEEK_DATA ? offset : (off_t)size);
}

/* Bytes inside the allocation have memory from the start. */
static void allocate(struct data_file *data, fuse_req_t req, uint64_t end)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	uint64_t size = 0;
	int error = data_size(data, &size);

	if (!error && end > size) {
		text_printf(&why,
			    "fallocate up to %s: the allocation has %s and does not grow",
			    size_text(end), size_text(size));
		data_fail(data, req, ENOSPC, text_string(&why));
		error = -ENOSPC;
	}
	reply_error(req, error);
}

static void data_fallocate(struct file *file, fuse_req_t req, int mode, off_t offset,
			   off_t length)
{
	struct data_file *data = data_of(file);
	struct caller caller = data_caller(data, req);
	int what = mode & ~FALLOC_FL_KEEP_SIZE;
	struct request *request;

	if (what == 0) {
		allocate(data, req, (uint64_t)offset + (uint64_t)length);
		return;
	}
	if (what != FALLOC_FL_ZERO_RANGE && what != FALLOC_FL_PUNCH_HOLE) {
		reply_error(req, -EOPNOTSUPP);
		return;
	}
	request = request_new(file->view, req, request_reply_error);
	if (!request)
		return;
	atomic_store(&data->wrote, true);
	broker_zero(file->view->broker, &data->writer, &caller, offset, length,
		    &request->wait);
	request_wait(request);
}

static void data_free(struct file *file, fuse_req_t req)
{
	struct data_file *data = data_of(file);

	(void)req;
	data_opened(data);
	identity_deinit(&data->identity);
}

static const struct file_type data_type = {
	.read = data_read,
	.refuse = data_refuse,
	.write = data_write,
	.sync = data_sync,
	.close = data_close,
	.lseek = data_lseek,
	.fallocate = data_fallocate,
	.free = data_free,
};

/* ---- opening ---- */

static void finish_open(struct data_file *data, fuse_req_t req,
			struct fuse_file_info *info, bool host)
{
	int backing = host ? mapping_get(data->file.view, data->writer.token) : 0;
	int error = MIN(backing, 0);

	data->host = host;
	data->mapped = backing > 0;
	if (data->mapped && (info->flags & O_ACCMODE) == O_RDWR) {
		error = broker_note_opening(data->file.view->broker, data->writer.token,
					    fuse_req_ctx(req)->uid);
		atomic_store(&data->opening, !error);
	}
	if (error) {
		file_free(&data->file, req);
		reply_error(req, error);
		return;
	}
	info->fh = file_handle(&data->file);
	info->noflush = !opened_for_writing(info);
	if (kernel_reply_open(req, info, backing) == -ENOENT)
		file_free(&data->file, NULL);
}

/* Supplementary groups matter only to callers that are neither the owner nor in the
 * group of the allocation. */
static int identify(struct data_file *data, fuse_req_t req,
		    const struct object_stat *stat)
{
	struct caller caller = caller_of(req);

	if (caller.uid != stat->uid && caller.gid != stat->gid)
		return identity_init(&data->identity, req);
	data->identity.caller = caller;
	return 0;
}

void file_data_open(struct view *view, fuse_req_t req, const struct node *node,
		    struct fuse_file_info *info)
{
	struct object_stat stat = { 0 };
	struct data_file *data = NULL;
	int error;

	error = broker_stat(view->broker, OBJECT_ALLOCATION, node->token, &stat);
	if (!error)
		error = file_refuse_sealed(view, req, node, info, &stat);
	if (!error) {
		data = file_new(view, req, &data_type, sizeof(*data));
		error = data ? identify(data, req, &stat) : -ENOMEM;
	}
	if (error) {
		file_free(data ? &data->file : NULL, req);
		reply_error(req, error);
		return;
	}
	broker_writer_init(view->broker, &data->writer, node->token);
	finish_open(data, req, info, stat.host);
}

void file_data_truncate(struct view *view, struct request *request, struct token token,
			uint64_t size)
{
	struct caller caller = caller_of(request->req);

	broker_truncate(view->broker, token, &caller, size, &request->wait);
	request_wait(request);
}

/* The opener, with the groups that were looked at for either file (identify()). */
static struct caller copy_caller(const struct data_file *source,
				 const struct data_file *target, fuse_req_t req)
{
	const struct caller *reader = &source->identity.caller;
	bool reads_by_group =
		reader->uid == target->identity.caller.uid && reader->n_groups;

	return data_caller(reads_by_group ? source : target, req);
}

/* The kernel and cp fall back to copying in silence on most errors; see broker.h. */
void file_data_copy(fuse_req_t req, struct file *source, off_t source_offset,
		    struct file *target, off_t target_offset, size_t length)
{
	struct request *request;
	struct caller caller;

	if (source->type != &data_type || target->type != &data_type) {
		reply_error(req, -EXDEV);
		return;
	}
	request = request_new(target->view, req, request_reply_written);
	if (!request)
		return;
	caller = copy_caller(data_of(source), data_of(target), req);
	atomic_store(&data_of(target)->wrote, true);
	broker_copy_range(target->view->broker, data_of(source)->writer.token,
			  source_offset, &data_of(target)->writer, target_offset, length,
			  &caller, &request->wait);
	request_wait(request);
}
