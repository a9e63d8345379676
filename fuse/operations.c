/* SPDX-License-Identifier: MIT */
/*
 * The table of operations that libfuse calls. Operations on a descriptor go on to the
 * table of its file. An operation missing there is not permitted, except close and fsync,
 * which are always permitted.
 */
#include "access.h"
#include "kernel.h"
#include "list.h"
#include "tickets.h"

#include <errno.h>
#include <poll.h>

static file_open *const openers[N_NODE_KINDS] = {
	[NODE_README] = file_text_open,	    [NODE_STATUS] = file_text_open,
	[NODE_ATTRIBUTE] = file_text_open,  [NODE_ERRORS] = file_text_open,
	[NODE_EVENTS] = file_text_open,	    [NODE_PIPE] = file_events_open,
	[NODE_CONTROL] = file_control_open, [NODE_DATA] = file_data_open,
	[NODE_UPLOAD] = file_upload_open,   [NODE_LEASE] = file_lease_open,
};

static void op_init(void *userdata, struct fuse_conn_info *connection)
{
	(void)userdata;
	kernel_init(connection);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct view *view = view_of(req);
	_cleanup_text_ struct text path = TEXT_INIT;
	struct node node;
	int error = tree_node(view, ino, &node);

	if (!error && node.row->kind != NODE_LINK)
		error = -EINVAL;
	if (!error)
		error = tickets_path_of(view->tickets, fuse_req_ctx(req)->uid, &path);
	if (error)
		reply_error(req, error);
	else
		fuse_reply_readlink(req, text_string(&path));
}

/* Not all of a user's subordinate uids may have something at a time. */
static int admit(fuse_req_t req)
{
	const struct caller caller = caller_of(req);

	return broker_admit(view_of(req)->broker, &caller);
}

static bool is_admitted(fuse_req_t req)
{
	int error = admit(req);

	if (error)
		reply_error(req, error);
	return !error;
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		       struct fuse_file_info *info)
{
	if (is_admitted(req))
		tree_setattr(req, ino, attr, to_set, info);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	if (is_admitted(req))
		tree_mkdir(req, parent, name, mode);
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (is_admitted(req))
		tree_rmdir(req, parent, name);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
		      fuse_ino_t new_parent, const char *new_name, unsigned int flags)
{
	if (is_admitted(req))
		tree_rename(req, parent, name, new_parent, new_name, flags);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct view *view = view_of(req);
	struct node node;
	int error = tree_node(view, ino, &node);

	if (!error && !openers[node.row->kind])
		error = -EISDIR;
	if (!error)
		error = access_check_open(view, req, &node, info);
	if (!error)
		error = files_allow(view, req, &node);
	if (!error)
		error = admit(req);
	if (error)
		reply_error(req, error);
	else
		openers[node.row->kind](view, req, &node, info);
}

/* Only the last broker knew the open file. */
static void tell_stale(fuse_req_t req, fuse_ino_t ino)
{
	const struct caller caller = caller_of(req);
	struct view *view = view_of(req);
	_cleanup_text_ struct text path = TEXT_INIT;
	struct node node;

	if (tree_node(view, ino, &node) == 0)
		file_path(view, &node, &path);
	broker_fail(view->broker, &caller, path.length ? text_string(&path) : "control",
		    ESTALE,
		    "the broker that opened this file died, and with it what the "
		    "descriptor stood for: open it again");
}

/* The open file of a request; NULL: the request was answered. */
static struct file *file_get(fuse_req_t req, fuse_ino_t ino,
			     const struct fuse_file_info *info)
{
	struct file *file = file_of(view_of(req), info);

	if (!file) {
		tell_stale(req, ino);
		reply_error(req, -ESTALE);
	}
	return file;
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	(void)ino;
	file_free(file_of(view_of(req), info), req);
	reply_error(req, 0);
}

/*
 * readahead(2), sendfile(2), splice(2) and faults of mappings read into the kernel's own
 * pages, and such reads name no lock owner. The kernel locks the pages until the answer,
 * and open(2), write(2) and close(2) of anybody wait for these locks, deaf to signals. The
 * pages are those of the file, whoever has it open, so a new text that one descriptor
 * still writes would be shown to others. So the kernel gets no pages. Programs that get
 * EINVAL from sendfile(2) or splice(2) go on with read(2).
 *
 * The pages of refused reads stay until the file goes. An open leaves them (keep_cache):
 * to drop them takes half a second for those of 4 GiB, and longer for a page that is
 * mapped many thousand times.
 */
static bool may_read(const struct fuse_file_info *info)
{
	return info->lock_owner;
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *info)
{
	struct file *file = file_get(req, ino, info);

	if (!file)
		return;
	if (may_read(info))
		file->type->read(file, req, size, offset, info);
	else if (file->type->refuse)
		file->type->refuse(file, req);
	else
		reply_error(req, -EINVAL);
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size,
		     off_t offset, struct fuse_file_info *info)
{
	struct file *file = file_get(req, ino, info);

	if (!file)
		return;
	if (file->type->write)
		file->type->write(file, req, bytes, size, offset, info);
	else
		reply_error(req, -EACCES);
}

static void op_fsync(fuse_req_t req, fuse_ino_t ino, int data_only,
		     struct fuse_file_info *info)
{
	struct file *file = file_get(req, ino, info);

	(void)data_only;
	if (!file)
		return;
	if (file->type->sync)
		file->type->sync(file, req);
	else
		reply_error(req, 0);
}

static void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct file *file = file_of(view_of(req), info);

	/* Uses of a stale descriptor are told of, its close is not. */
	if (!file)
		reply_error(req, -ESTALE);
	else if (file->type->close)
		file->type->close(file, req);
	else
		op_fsync(req, ino, 0, info);
}

/* A directory has no open file here. */
static void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int code, void *argument,
		     struct fuse_file_info *info, unsigned int flags, const void *bytes,
		     size_t size, size_t answer_size)
{
	struct file *file = flags & FUSE_IOCTL_DIR ? NULL : file_get(req, ino, info);

	(void)argument;
	(void)answer_size;
	if (!file && !(flags & FUSE_IOCTL_DIR))
		return;
	if (file && file->type->ioctl)
		file->type->ioctl(file, req, code, bytes, size);
	else
		reply_error(req, -ENOTTY);
}

static void op_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info,
		    struct fuse_pollhandle *handle)
{
	struct file *file = file_get(req, ino, info);

	if (file && file->type->poll) {
		file->type->poll(file, req, handle);
		return;
	}
	if (handle)
		fuse_pollhandle_destroy(handle);
	if (file)
		fuse_reply_poll(req, POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM);
}

static void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence,
		     struct fuse_file_info *info)
{
	struct file *file = file_get(req, ino, info);

	if (!file)
		return;
	if (file->type->lseek)
		file->type->lseek(file, req, offset, whence);
	else
		reply_error(req, -EINVAL);
}

static void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset,
			 off_t length, struct fuse_file_info *info)
{
	struct file *file = file_get(req, ino, info);

	if (!file)
		return;
	if (file->type->fallocate)
		file->type->fallocate(file, req, mode, offset, length);
	else
		reply_error(req, -EOPNOTSUPP);
}

static void op_copy(fuse_req_t req, fuse_ino_t source, off_t source_offset,
		    struct fuse_file_info *source_info, fuse_ino_t target,
		    off_t target_offset, struct fuse_file_info *target_info,
		    size_t length, int flags)
{
	struct file *from = file_get(req, source, source_info);
	struct file *to = from ? file_get(req, target, target_info) : NULL;

	(void)flags;
	if (to)
		file_data_copy(req, from, source_offset, to, target_offset, length);
}

const struct fuse_lowlevel_ops view_operations = {
	.init = op_init,
	.lookup = tree_lookup,
	.forget = tree_forget,
	.forget_multi = tree_forget_multi,
	.getattr = tree_getattr,
	.setattr = op_setattr,
	.mknod = tree_mknod,
	.mkdir = op_mkdir,
	.unlink = tree_unlink,
	.rmdir = op_rmdir,
	.symlink = tree_symlink,
	.rename = op_rename,
	.link = tree_link,
	.readlink = op_readlink,
	.open = op_open,
	.read = op_read,
	.write = op_write,
	.flush = op_flush,
	.release = op_release,
	.fsync = op_fsync,
	.readdir = list_readdir,
	.readdirplus = list_readdirplus,
	.statfs = tree_statfs,
	.create = tree_create,
	.ioctl = op_ioctl,
	.poll = op_poll,
	.lseek = op_lseek,
	.fallocate = op_fallocate,
	.copy_file_range = op_copy,
};
