/* SPDX-License-Identifier: MIT */
/*
 * Changing the tree: folders make, remove and rename objects; any file of an object
 * changes the owner, group and mode of the object. Only the broker makes files, so calls
 * to make or remove a file are refused, with a sentence about the way to do it.
 *
 * The kernel has checked the permissions of the folder (default_permissions). The broker
 * checks the owner of the object: folders have no sticky bit, with which the kernel would
 * refuse without a sentence.
 */
#include "access.h"
#include "tree.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define PERMISSIONS 0666

/* A path for the journal, as a shell in the root of the mount has it. */
struct path {
	char bytes[FULL_NAME_MAX + 2 * (LISTED_NAME_MAX + 1)];
};

static struct path path_of(struct view *view, const struct node *directory,
			   const char *name)
{
	_cleanup_text_ struct text folder = TEXT_INIT;
	const char *row = directory->row->name;
	struct path path;

	if (!node_is_fixed(directory))
		(void)broker_path(view->broker, directory->row->type, directory->token,
				  &folder);
	if (*row)
		text_printf(&folder, "%s%s", folder.length ? "/" : "", row);
	snprintf(path.bytes, sizeof(path.bytes), "%s%s%.255s", text_string(&folder),
		 folder.length ? "/" : "", name);
	return path;
}

/* ---- attributes ---- */

static void reply_attr(struct request *request, int error, const void *bytes,
		       size_t length)
{
	(void)bytes;
	(void)length;
	if (error)
		reply_error(request->req, error);
	else
		tree_reply_attr(request->view, request->req, request->ino);
}

/* The path of a node, for the journal. */
static struct path path_of_node(struct view *view, const struct node *node)
{
	_cleanup_text_ struct text object = TEXT_INIT;
	const char *row = node->row->name;
	const struct node_row *fixed;
	struct path path;
	size_t n;

	fixed = nodes_fixed(&n);
	if (node_is_fixed(node))
		text_printf(&object, "%s", fixed[node->row->parent].name);
	else
		(void)broker_path(view->broker, node->row->type, node->token, &object);
	snprintf(path.bytes, sizeof(path.bytes), "%s%s%s", text_string(&object),
		 object.length && *row ? "/" : "", row);
	return path;
}

/* Whether the node is a folder of users' objects that mkdir has made. */
static bool is_folder(const struct node *node)
{
	return !node_is_fixed(node) && node->row->kind == NODE_FOLDER &&
	       !*node->row->name;
}

static bool has_mode(const struct node *node)
{
	return node->row->type == OBJECT_ALLOCATION || node->row->type == OBJECT_MODULE ||
	       node->row->type == OBJECT_FUNCTION || node->row->type == OBJECT_FOLDER;
}

/* Refuses modes and groups that no object of the broker has. Returns: was it refused? */
static bool refuse_change(struct view *view, fuse_req_t req, const struct node *node,
			  mode_t mode)
{
	struct caller caller = caller_of(req);
	struct path path = path_of_node(view, node);
	int error = 0;

	if (!has_mode(node)) {
		error = EPERM;
		broker_fail(
			view->broker, &caller, path.bytes, error,
			"only allocations, modules and their folders have a mode and a "
			"group that can be changed");
	} else if (mode & (S_ISUID | S_ISGID | S_ISVTX)) {
		error = EINVAL;
		broker_fail(view->broker, &caller, path.bytes, error,
			    "mode %04o: only the permissions up to 0777 can be set here",
			    mode & 07777);
	}
	if (error)
		reply_error(req, -error);
	return error;
}

static void change_owner(struct view *view, fuse_req_t req, fuse_ino_t ino,
			 const struct node *node, const struct stat *attr, int to_set)
{
	mode_t mode = to_set & FUSE_SET_ATTR_MODE
			      ? attr->st_mode & (is_folder(node) ? 0777 : PERMISSIONS)
			      : (mode_t)-1;
	uid_t uid = to_set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1;
	gid_t gid = to_set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1;
	/* Without groups: the kernel has checked that an owner is in the new group. */
	struct caller caller = caller_of(req);
	int error;

	if (refuse_change(view, req, node,
			  to_set & FUSE_SET_ATTR_MODE ? attr->st_mode : 0))
		return;
	error = (is_folder(node) ? broker_change_folder : broker_change)(
		view->broker, node->row->type, node->token, &caller, mode, uid, gid);
	if (error) {
		reply_error(req, error);
		return;
	}
	tree_invalidate(view, node);
	tree_reply_attr(view, req, ino);
}

static void change_size(struct view *view, fuse_req_t req, fuse_ino_t ino,
			const struct node *node, const struct stat *attr)
{
	struct request *request = request_new(view, req, reply_attr);

	if (!request)
		return;
	request->ino = ino;
	file_data_truncate(view, request, node->token, attr->st_size);
}

/* Resizes the bytes that a descriptor has written, not the stored or loaded contents. */
static void change_upload_size(struct view *view, fuse_req_t req, fuse_ino_t ino,
			       const struct node *node, const struct fuse_file_info *info,
			       const struct stat *attr)
{
	struct file *file = info ? file_of(view, info) : NULL;
	int error = 0;

	if (file)
		error = file_upload_resize(file, req, (uint64_t)attr->st_size);
	else if (info)
		error = -ESTALE;
	else if (attr->st_size == 0)
		error = file_upload_truncate(view, req, node);
	if (error)
		reply_error(req, error);
	else
		tree_reply_attr(view, req, ino);
}

/*
 * Times are accepted and ignored, and so is a size for files without a size. Nothing here
 * may wait or take long: the kernel holds locks of the file and of its folders.
 */
void tree_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		  struct fuse_file_info *info)
{
	const int whose = FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID;
	struct view *view = view_of(req);
	struct node node;
	int error = tree_node(view, ino, &node);

	if (!error && to_set & FUSE_SET_ATTR_SIZE && !info)
		error = access_check_truncate(view, req, &node);
	if (error)
		reply_error(req, error);
	else if (to_set & whose)
		change_owner(view, req, ino, &node, attr, to_set);
	else if (to_set & FUSE_SET_ATTR_SIZE && node.row->kind == NODE_DATA)
		change_size(view, req, ino, &node, attr);
	else if (to_set & FUSE_SET_ATTR_SIZE && node.row->kind == NODE_UPLOAD)
		change_upload_size(view, req, ino, &node, info, attr);
	else
		tree_reply_attr(view, req, ino);
}

/* ---- names ---- */

/* Refuses with a sentence in the journal. */
static void refuse(fuse_req_t req, const struct node *directory, const char *name,
		   int error, const char *sentence)
{
	struct caller caller = caller_of(req);
	struct path path = path_of(view_of(req), directory, name);

	broker_fail(view_of(req)->broker, &caller, path.bytes, error, "%s", sentence);
	reply_error(req, -error);
}

/*
 * Objects of this type are made in the directory; OBJECT_BROKER: none. A module's own
 * directory becomes a folder with the first name made in it.
 */
static enum object_type made_in(const struct node *directory, bool open)
{
	const struct node_row *row = directory->row;

	if (row->kind == NODE_FOLDER &&
	    (node_is_fixed(directory) || is_folder(directory)))
		return row->holds;
	return open && row->kind == NODE_OBJECT && row->type == OBJECT_MODULE
		       ? OBJECT_MODULE
		       : OBJECT_BROKER;
}

/* The folder behind an id, and the type of objects in it. Returns: true; false, and the
 * request has been answered. */
static bool folder_of(fuse_req_t req, fuse_ino_t ino, const char *name, bool open,
		      const char *sentence, struct node *ret_node,
		      enum object_type *ret_type)
{
	int error = tree_node(view_of(req), ino, ret_node);

	if (error) {
		reply_error(req, error);
		return false;
	}
	*ret_type = made_in(ret_node, open);
	if (*ret_type == OBJECT_BROKER)
		refuse(req, ret_node, name, EPERM, sentence);
	return *ret_type != OBJECT_BROKER;
}

void tree_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct view *view = view_of(req);
	struct caller caller = caller_of(req);
	struct object_ref object;
	enum object_type type;
	struct node folder, node;
	int error;

	if (!folder_of(req, parent, name, true,
		       "directories are made in allocations, modules, streams and owners "
		       "only",
		       &folder, &type))
		return;
	error = broker_create(view->broker, type, folder.token, name, mode, &caller,
			      &object);
	if (error) {
		reply_error(req, error);
		return;
	}
	node = node_of_object(object);
	tree_reply_entry(view, req, &node);
}

void tree_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct caller caller = caller_of(req);
	enum object_type type;
	struct node folder;

	if (!folder_of(req, parent, name, false, "this directory is part of the tree",
		       &folder, &type))
		return;
	reply_error(req, broker_remove(view_of(req)->broker, type, folder.token, name,
				       &caller));
}

void tree_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
		 fuse_ino_t new_parent, const char *new_name, unsigned int flags)
{
	struct view *view = view_of(req);
	struct caller caller = caller_of(req);
	enum object_type type, new_type;
	struct node folder, target;
	int error;

	if (!folder_of(req, parent, name, false, "only objects have names that change",
		       &folder, &type))
		return;
	error = tree_node(view, new_parent, &target);
	if (error) {
		reply_error(req, error);
		return;
	}
	new_type = made_in(&target, true);
	/* Onto a name in use, mv(1) asks for a place inside, since objects are
	 * directories. */
	if (target.row->kind == NODE_OBJECT && target.row->type == OBJECT_ALLOCATION &&
	    type == OBJECT_ALLOCATION)
		refuse(req, &folder, name, EEXIST, "that name is taken by another");
	else if (new_type != type)
		refuse(req, &folder, name, EPERM,
		       "allocations stay in allocations, modules in modules");
	else
		reply_error(req, broker_rename(view->broker, type,
					       (struct name_in){ folder.token, name },
					       (struct name_in){ target.token, new_name },
					       flags, &caller));
}

/* ---- never permitted ---- */

static void refuse_file(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node directory;
	int error = tree_node(view_of(req), parent, &directory);

	if (error)
		reply_error(req, error);
	else if (directory.row->type == OBJECT_ALLOCATION)
		refuse(req, &directory, name, EPERM,
		       "no files are made here; prefetch, advise and attach are of "
		       "managed memory");
	else
		refuse(req, &directory, name, EPERM,
		       "no files are made here: control/alloc makes allocations");
}

void tree_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		dev_t device)
{
	(void)mode;
	(void)device;
	refuse_file(req, parent, name);
}

void tree_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		 struct fuse_file_info *info)
{
	(void)mode;
	(void)info;
	refuse_file(req, parent, name);
}

void tree_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	(void)target;
	refuse_file(req, parent, name);
}

void tree_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	(void)ino;
	refuse_file(req, parent, name);
}

void tree_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node directory;
	int error = tree_node(view_of(req), parent, &directory);

	if (error)
		reply_error(req, error);
	else
		refuse(req, &directory, name, EPERM,
		       "files belong to their object: rmdir its directory");
}
