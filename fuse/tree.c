/* SPDX-License-Identifier: MIT */
/*
 * Looking at the tree: names to nodes, nodes to what stat(2) says. Listings: list.c.
 *
 * The broker is asked for each name anew: names of objects have timeouts of zero, so no
 * race is lost. The fixed nodes never change and may be kept. A node of a freed object
 * answers ESTALE, on which the kernel looks the name up again; an unknown name answers
 * ENOENT.
 *
 * The kernel may use attributes for a moment, or it would ask for them between the
 * look-up and the open, and for those of the folder at each file. tree_invalidate() takes
 * them back when a mode or an owner changes.
 */
#include "tree.h"

#include "base/def.h"
#include "system_call.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define KEEP_S	   3600.0
#define USE_S	   1e-9 /* the kernel makes this one or two of its ticks */
#define BLOCK	   512
#define DATA_BLOCK (1 << 20)
#define FRAGMENT   4096

int tree_node(struct view *view, fuse_ino_t ino, struct node *ret_node)
{
	uint64_t id = ino;

	if (node_is_control_inode(id) &&
	    control_inodes_find(&view->control_inodes, id, &id))
		return -ESTALE;
	if (node_from_id(id, ret_node))
		return -ESTALE;
	if (ret_node->row->type == OBJECT_MODULE && ret_node->row->kind == NODE_OBJECT &&
	    broker_is_folder(view->broker, OBJECT_MODULE, ret_node->token))
		ret_node->row = nodes_module_folder();
	return 0;
}

/* ---- stat ---- */

static mode_t read_to_search(mode_t mode)
{
	return mode | (mode & 0444) >> 2;
}

/* Functions and their folder take no names, so nobody is to write there. Linux refuses
 * without locking a file. */
static mode_t mode_of_object(const struct node_row *row, mode_t mode)
{
	bool functions = row->type == OBJECT_FUNCTION || row->holds == OBJECT_FUNCTION;
	bool private =
		functions || row->type == OBJECT_ALLOCATION || row->type == OBJECT_MODULE;

	mode = private ? read_to_search(mode) : 0555;
	return functions ? mode & ~(mode_t)0222 : mode;
}

static mode_t mode_of_data(const struct node_row *row, mode_t mode)
{
	(void)row;
	return mode;
}

static mode_t mode_of_control(const struct node_row *row, mode_t mode)
{
	(void)row;
	return 0444 | (mode & 0222);
}

static mode_t mode_of_attribute(const struct node_row *row, mode_t mode)
{
	mode_t read = row->attribute->flags & ATTRIBUTE_PRIVATE ? 0400 : 0444;

	return read | (row->attribute->flags & ATTRIBUTE_WRITABLE ? mode & 0200 : 0);
}

static mode_t mode_of_text(const struct node_row *row, mode_t mode)
{
	(void)row;
	(void)mode;
	return 0444;
}

/* Permissions of the files of an object, from those of the object. */
static mode_t (*const modes[N_NODE_KINDS])(const struct node_row *row, mode_t mode) = {
	[NODE_OBJECT] = mode_of_object,	      [NODE_STATUS] = mode_of_text,
	[NODE_ATTRIBUTE] = mode_of_attribute, [NODE_CONTROL] = mode_of_control,
	[NODE_DATA] = mode_of_data,	      [NODE_UPLOAD] = mode_of_data,
	[NODE_LEASE] = mode_of_data,	      [NODE_FOLDER] = mode_of_object,
};

static void stat_fixed(struct view *view, const struct node *node, struct stat *stat)
{
	*stat = view->root;
	stat->st_ino = node_inode(node, 0);
	stat->st_mode = node->row->mode;
	stat->st_nlink = 1;
	stat->st_blksize = FRAGMENT;
}

/*
 * Files that everybody may read and nobody may write are the broker's, as in /sys. The
 * owner of a file may take a lease of Linux on it (F_SETLEASE), and then each open by
 * another waits for 45 s.
 */
static bool is_brokers(mode_t mode)
{
	return S_ISREG(mode) && (mode & 0777) == 0444;
}

static bool has_bytes(const struct node_row *row)
{
	return row->kind == NODE_DATA || row->kind == NODE_UPLOAD;
}

void tree_stat_object(struct view *view, const struct node *node,
		      const struct object_stat *object, struct stat *ret_stat)
{
	const struct node_row *row = node->row;
	bool tensors = row->kind == NODE_UPLOAD && row->type == OBJECT_ALLOCATION;
	uint64_t size = tensors ? object->tensors_size : object->size;
	bool shows_bytes = row->kind == NODE_OBJECT || object->folder || has_bytes(row);

	memset(ret_stat, 0, sizeof(*ret_stat));
	ret_stat->st_ino = node_inode(node, object->id);
	ret_stat->st_mode =
		row->mode |
		(object->folder ? object->mode : modes[row->kind](row, object->mode));
	ret_stat->st_nlink = 1;
	ret_stat->st_uid = object->uid;
	ret_stat->st_gid = object->gid;
	if (!has_bytes(row) && row->kind != NODE_LEASE && is_brokers(ret_stat->st_mode)) {
		ret_stat->st_uid = view->root.st_uid;
		ret_stat->st_gid = view->root.st_gid;
	}
	ret_stat->st_blksize = FRAGMENT;
	ret_stat->st_mtim = view->root.st_mtim;
	if (shows_bytes && object->changed_s)
		ret_stat->st_mtim =
			(struct timespec){ object->changed_s, object->changed_ns };
	else if (object->created_s)
		ret_stat->st_mtim = (struct timespec){ object->created_s, 0 };
	ret_stat->st_atim = ret_stat->st_mtim;
	if (shows_bytes && object->used_s)
		ret_stat->st_atim = (struct timespec){ object->used_s, object->used_ns };
	ret_stat->st_ctim = ret_stat->st_mtim;
	if (shows_bytes)
		ret_stat->st_size = (off_t)size;
	if (has_bytes(row)) {
		ret_stat->st_blocks = (blkcnt_t)(align_up(size, BLOCK) / BLOCK);
		ret_stat->st_blksize = DATA_BLOCK;
	}
}

bool tree_has_file(const struct node_row *row, const struct object_stat *object)
{
	return !row->managed || object->managed;
}

int tree_stat(struct view *view, const struct node *node, struct stat *ret_stat)
{
	struct object_stat object;
	int error;

	if (node_is_fixed(node)) {
		stat_fixed(view, node, ret_stat);
		return 0;
	}
	error = broker_stat(view->broker, node->row->type, node->token, &object);
	if (error)
		return error;
	/* A file of a module that has become a folder since. */
	if (object.folder && *node->row->name)
		return -ESTALE;
	tree_stat_object(view, node, &object, ret_stat);
	return 0;
}

double tree_attributes_timeout(const struct node *node)
{
	const struct node_row *row = node->row;

	if (node_is_fixed(node))
		return row->kind == NODE_CONTROL ? USE_S : KEEP_S;
	if (row->type == OBJECT_FUNCTION || node_has_control_inodes(row) ||
	    has_bytes(row))
		return 0;
	return TREE_LISTED_S;
}

void tree_reply_attr(struct view *view, fuse_req_t req, fuse_ino_t ino)
{
	struct stat stat;
	struct node node;
	int error = tree_node(view, ino, &node);

	if (!error)
		error = tree_stat(view, &node, &stat);
	if (error) {
		reply_error(req, error);
		return;
	}
	fuse_reply_attr(req, &stat, tree_attributes_timeout(&node));
}

void tree_invalidate(struct view *view, const struct node *node)
{
	size_t n;
	const struct node_row *rows = nodes_of(node->row->type, &n);

	for (size_t i = 0; i < n; i++) {
		struct node file = { &rows[i], node->token };

		if (tree_attributes_timeout(&file) > 0)
			fuse_lowlevel_notify_inval_inode(view->session, node_id(&file),
							 -1, 0);
	}
}

/*
 * Control files and leases get an inode each time and are never kept; other fixed nodes
 * are kept.
 */
static int fill_entry(struct view *view, const struct node *node, uid_t uid,
		      struct fuse_entry_param *entry)
{
	bool control = node_has_control_inodes(node->row);
	int error = tree_stat(view, node, &entry->attr);

	if (error)
		return error;
	entry->ino = node_id(node);
	entry->attr_timeout = tree_attributes_timeout(node);
	if (node_is_fixed(node) && !control)
		entry->entry_timeout = KEEP_S;
	return control ? control_inodes_add(&view->control_inodes, entry->ino, uid,
					    &entry->ino)
		       : 0;
}

void tree_reply_entry(struct view *view, fuse_req_t req, const struct node *node)
{
	struct fuse_entry_param entry = { 0 };
	int error = fill_entry(view, node, fuse_req_ctx(req)->uid, &entry);

	if (error) {
		reply_error(req, error);
		return;
	}
	/* The kernel gave up on the lookup, so it sends no FORGET either. */
	if (fuse_reply_entry(req, &entry) == -ENOENT && node_is_control_inode(entry.ino))
		control_inodes_forget(&view->control_inodes, entry.ino, 1);
}

/* ---- looking up ---- */

static int find_fixed(struct view *view, fuse_req_t req, const struct node *parent,
		      const char *name, struct node *ret_node)
{
	const struct node_row *row = nodes_find_fixed(parent->row, name);

	(void)view;
	(void)req;
	if (!row)
		return -ENOENT;
	*ret_node = (struct node){ row, TOKEN_NONE };
	return 0;
}

static int find_object(struct view *view, fuse_req_t req, const struct node *parent,
		       const char *name, struct node *ret_node)
{
	enum object_type type = parent->row->holds;
	struct caller caller = caller_of(req);
	struct object_ref object;
	int error =
		broker_find(view->broker, type, parent->token, name, &caller, &object);

	if (error)
		return error;
	*ret_node = node_of_object(object);
	return 0;
}

/* A folder of objects may have fixed nodes, too. */
static int find_in_folder(struct view *view, fuse_req_t req, const struct node *parent,
			  const char *name, struct node *ret_node)
{
	if (node_is_fixed(parent) && !find_fixed(view, req, parent, name, ret_node))
		return 0;
	return find_object(view, req, parent, name, ret_node);
}

static int find_file(struct view *view, fuse_req_t req, const struct node *parent,
		     const char *name, struct node *ret_node)
{
	const struct node_row *row = nodes_find_of(parent->row->type, name);
	struct object_stat object;
	int error;

	(void)req;
	if (!row)
		return -ENOENT;
	error = broker_stat(view->broker, row->type, parent->token, &object);
	if (error)
		return error;
	if (!tree_has_file(row, &object))
		return -ENOENT;
	*ret_node = (struct node){ row, parent->token };
	return 0;
}

static int (*const finders[N_NODE_KINDS])(struct view *view, fuse_req_t req,
					  const struct node *parent, const char *name,
					  struct node *ret_node) = {
	[NODE_DIRECTORY] = find_fixed,
	[NODE_FOLDER] = find_in_folder,
	[NODE_OBJECT] = find_file,
};

struct look_up {
	struct node parent;
	char name[];
};

static void on_looked_up(struct request *request, int error, const void *bytes,
			 size_t length)
{
	_cleanup_free_ struct look_up *look_up = request->context;
	struct node node;

	(void)bytes;
	(void)length;
	if (!error)
		error = find_object(request->view, request->req, &look_up->parent,
				    look_up->name, &node);
	if (error)
		reply_error(request->req, error == -EINTR ? -EINTR : -ENOENT);
	else
		tree_reply_entry(request->view, request->req, &node);
}

/* The broker has to ask a worker first. */
static void look_up_later(struct view *view, fuse_req_t req, const struct node *parent,
			  const char *name)
{
	struct look_up *look_up = malloc(sizeof(*look_up) + strlen(name) + 1);
	struct request *request;

	if (!look_up) {
		reply_error(req, -ENOMEM);
		return;
	}
	look_up->parent = *parent;
	strcpy(look_up->name, name);
	request = request_new(view, req, on_looked_up);
	if (!request) {
		free(look_up);
		return;
	}
	request->context = look_up;
	broker_look_up(view->broker, parent->row->holds, parent->token, name,
		       &request->wait);
	request_wait(request);
}

/* ---- calls that would hold a folder ---- */

/*
 * Linux locks a folder, looks a name up in it, and then locks the file that the call is
 * about. A write that waits, as of a line, holds the lock of its file. So a call that the
 * broker will refuse waits first, and keeps the folder from everybody. Therefore the
 * look-up is refused. Folders that the sender may not write are safe: Linux checks their
 * permissions before it locks the file.
 */

/* Whether users may write the folder. */
static bool takes_names(const struct node *directory)
{
	return !node_is_fixed(directory) || directory->row->mode & 0022;
}

/* There is no such name. Returns: whether the request has been answered. */
static bool refuse_link(fuse_req_t req, fuse_ino_t parent, const struct node *directory,
			const char *name)
{
	int change = takes_names(directory) ? system_call_change(fuse_req_ctx(req)->pid)
					    : NAME_CHANGE_NONE;

	if (change < 0)
		reply_error(req, change);
	else if (change == NAME_CHANGE_LINK)
		tree_link(req, 0, parent, name);
	return change < 0 || change == NAME_CHANGE_LINK;
}

bool tree_is_lockable(const struct node *node)
{
	const struct node_row *row = node->row;

	if (node_is_fixed(node) || !*row->name || row->kind == NODE_STATUS)
		return false;
	return row->kind != NODE_ATTRIBUTE || row->attribute->flags & ATTRIBUTE_WRITABLE;
}

/*
 * The name is that of the node. The mode of the folder is not asked: chmod(2) of a file
 * in it may grant the removal in between. The look takes some 5 us.
 * Returns: whether the request has been answered.
 */
static bool refuse_removal(fuse_req_t req, fuse_ino_t parent, const char *name,
			   const struct node *node)
{
	int change = tree_is_lockable(node) ? system_call_change(fuse_req_ctx(req)->pid)
					    : NAME_CHANGE_NONE;

	if (change < 0)
		reply_error(req, change);
	else if (change != NAME_CHANGE_REMOVE)
		return false;
	else if (node->row->kind == NODE_FOLDER)
		tree_rmdir(req, parent, name);
	else
		tree_unlink(req, parent, name);
	return true;
}

void tree_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct view *view = view_of(req);
	struct node directory, node;
	int error = tree_node(view, parent, &directory);

	if (!error && !finders[directory.row->kind])
		error = -ENOTDIR;
	if (error) {
		reply_error(req, error);
		return;
	}
	error = finders[directory.row->kind](view, req, &directory, name, &node);
	if (error == -ENOENT && refuse_link(req, parent, &directory, name))
		return;
	if (!error && refuse_removal(req, parent, name, &node))
		return;
	if (error == -EAGAIN)
		look_up_later(view, req, &directory, name);
	else if (error)
		reply_error(req, error);
	else
		tree_reply_entry(view, req, &node);
}

static void forget(struct view *view, fuse_ino_t ino, uint64_t n)
{
	if (node_is_control_inode(ino))
		control_inodes_forget(&view->control_inodes, ino, n);
}

void tree_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	forget(view_of(req), ino, n);
	fuse_reply_none(req);
}

void tree_forget_multi(fuse_req_t req, size_t n, struct fuse_forget_data *forgets)
{
	struct view *view = view_of(req);

	for (size_t i = 0; i < n; i++)
		forget(view, forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

void tree_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	(void)info;
	tree_reply_attr(view_of(req), req, ino);
}

/* ---- df ---- */

static void reply_space(struct request *request, int error, const void *bytes,
			size_t length)
{
	const struct broker_space *space = bytes;
	struct statvfs statvfs = {
		.f_bsize = FRAGMENT,
		.f_frsize = FRAGMENT,
		.f_namemax = LISTED_NAME_MAX,
	};

	(void)length;
	if (error) {
		reply_error(request->req, error);
		return;
	}
	statvfs.f_blocks = space->total / FRAGMENT;
	statvfs.f_bfree = space->free / FRAGMENT;
	statvfs.f_bavail = statvfs.f_bfree;
	statvfs.f_files = UINT32_MAX;
	statvfs.f_ffree = UINT32_MAX - space->n_allocations;
	statvfs.f_favail = statvfs.f_ffree;
	fuse_reply_statfs(request->req, &statvfs);
}

void tree_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct view *view = view_of(req);
	struct request *request = request_new(view, req, reply_space);
	const struct caller caller = caller_of(req);

	(void)ino;
	if (!request)
		return;
	broker_space(view->broker, &caller, &request->wait);
	request_wait(request);
}
