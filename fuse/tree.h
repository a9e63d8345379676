/* SPDX-License-Identifier: MIT */
/* Shared by the operations on names: the node of an id, and the stat(2) of a node. */
#pragma once

#include "node.h"
#include "view.h"

#include <sys/stat.h>

/* The node of an id, also of a control inode. Returns: 0; -ESTALE. */
int tree_node(struct view *view, fuse_ino_t ino, struct node *ret_node);

/* Returns: 0; -ESTALE. */
int tree_stat(struct view *view, const struct node *node, struct stat *ret_stat);

/* The same for a file whose object has been asked for. */
void tree_stat_object(struct view *view, const struct node *node,
		      const struct object_stat *object, struct stat *ret_stat);

/* Whether the object has the file. */
bool tree_has_file(const struct node_row *row, const struct object_stat *object);

/*
 * Whether the node is a file whose lock something may hold for long, or the folder of
 * functions; a text is only read. Names of these are never removed. Before each removal
 * the kernel must ask for the name, which is refused then.
 */
bool tree_is_lockable(const struct node *node);

/* From a listing to the question for the attributes of its files, in seconds. */
#define TREE_LISTED_S 0.1

/*
 * How long the kernel may use the attributes of a node, in seconds. 0 for those that
 * nobody could take back (a function has its module's, and a control file of an object
 * has an id that only the kernel knows), and for files whose times change with each
 * write: tar compares them.
 */
double tree_attributes_timeout(const struct node *node);

/*
 * The mode or the owner of the node's object has changed: the kernel forgets the
 * attributes of the object's files. To be called before the change is answered.
 */
void tree_invalidate(struct view *view, const struct node *node);

/* Answers with the attributes of a node, or the error. */
void tree_reply_attr(struct view *view, fuse_req_t req, fuse_ino_t ino);

/* Answers a LOOKUP or MKDIR with a node, or the error. */
void tree_reply_entry(struct view *view, fuse_req_t req, const struct node *node);

/* The operations, see fuse_lowlevel.h. */
void tree_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void tree_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n);
void tree_forget_multi(fuse_req_t req, size_t n, struct fuse_forget_data *forgets);
void tree_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info);
void tree_statfs(fuse_req_t req, fuse_ino_t ino);
void tree_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		  struct fuse_file_info *info);
void tree_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void tree_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void tree_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
		 fuse_ino_t new_parent, const char *new_name, unsigned int flags);
void tree_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		dev_t device);
void tree_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		 struct fuse_file_info *info);
void tree_symlink(fuse_req_t req, const char *target, fuse_ino_t parent,
		  const char *name);
void tree_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name);
void tree_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
