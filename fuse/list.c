/* SPDX-License-Identifier: MIT */
/*
 * Listings of folders.
 *
 * A program that lists the folder of an object usually asks for the attributes of all its
 * files next (du, find, ls -l). So the listing has them, for a moment. Of a file whose
 * attributes must be asked for each time the listing has the node, which saves a look-up.
 * The kernel knows a node of a control file by its look-up only.
 */
#include "list.h"

#include "base/def.h"

#include <errno.h>
#include <stdlib.h>

#define N_DOTS	2  /* entries; offsets 1 and 2 are behind them */
#define N_BATCH 32 /* objects asked for at a time */

/* A listing for a reply. */
struct page {
	struct view *view;
	fuse_req_t req;
	bool with_attributes;
	char *bytes;
	size_t size;
	size_t length;
};

/* Adds an entry; next is the offset of the following one. Returns: was there room? */
static bool page_add_entry(struct page *page, const char *name,
			   const struct fuse_entry_param *entry, off_t next)
{
	char *end = page->bytes + page->length;
	size_t left = page->size - page->length, need;

	if (page->with_attributes)
		need = fuse_add_direntry_plus(page->req, end, left, name, entry, next);
	else
		need = fuse_add_direntry(page->req, end, left, name, &entry->attr, next);
	if (need > left)
		return false;
	page->length += need;
	return true;
}

/* The same without attributes: the kernel takes entries of node 0 for the name alone. */
static bool page_add(struct page *page, const char *name, ino_t inode, mode_t mode,
		     off_t next)
{
	const struct fuse_entry_param entry = { .attr = { .st_ino = inode,
							  .st_mode = mode } };

	return page_add_entry(page, name, &entry, next);
}

/* first: the offset of row 0. */
static void list_fixed_from(struct page *page, const struct node *directory, off_t offset,
			    off_t first)
{
	size_t n;
	const struct node_row *rows = nodes_fixed(&n);
	unsigned int parent = (unsigned int)(directory->row - rows);

	for (size_t i = (size_t)MAX(offset - first, 1); i < n; i++) {
		struct node node = { &rows[i], TOKEN_NONE };

		if (rows[i].parent == parent &&
		    !page_add(page, rows[i].name, node_inode(&node, 0), rows[i].mode,
			      first + (off_t)i + 1))
			return;
	}
}

static void list_fixed(struct page *page, const struct node *directory, off_t offset)
{
	list_fixed_from(page, directory, offset, N_DOTS);
}

/* Returns: was there room for all? */
static bool list_objects(struct page *page, const struct node *directory, off_t offset)
{
	enum object_type type = directory->row->holds;
	struct caller caller = caller_of(page->req);
	struct broker *broker = page->view->broker;
	struct listing entries[N_BATCH];
	uint64_t cookie = (uint64_t)(offset - N_DOTS);
	size_t n;

	while ((n = broker_list(broker, type, directory->token, &caller, cookie, entries,
				N_BATCH)) > 0) {
		for (size_t i = 0; i < n; i++) {
			struct node node = node_of_object(entries[i].object);

			cookie = entries[i].next;
			if (!page_add(page, entries[i].name,
				      node_inode(&node, entries[i].id), S_IFDIR,
				      (off_t)cookie + N_DOTS))
				return false;
		}
	}
	return true;
}

/* Fixed nodes in a folder of objects come behind all objects. */
#define FIXED_FROM ((off_t)1 << 40)

static void list_folder(struct page *page, const struct node *directory, off_t offset)
{
	if (offset < FIXED_FROM && !list_objects(page, directory, offset))
		return;
	if (node_is_fixed(directory))
		list_fixed_from(page, directory, MAX(offset, FIXED_FROM), FIXED_FROM);
}

static void list_files(struct page *page, const struct node *directory, off_t offset)
{
	struct object_stat object;
	size_t n;
	const struct node_row *rows = nodes_of(directory->row->type, &n);

	if (broker_stat(page->view->broker, directory->row->type, directory->token,
			&object))
		return;
	for (size_t i = (size_t)MAX(offset - N_DOTS, 1); i < n; i++) {
		struct node node = { &rows[i], directory->token };
		struct fuse_entry_param entry = { 0 };

		if (!tree_has_file(&rows[i], &object))
			continue;
		tree_stat_object(page->view, &node, &object, &entry.attr);
		entry.attr_timeout = tree_attributes_timeout(&node);
		if (!tree_is_lockable(&node)) {
			entry.ino = node_id(&node);
			entry.entry_timeout = TREE_LISTED_S;
		}
		if (!page_add_entry(page, rows[i].name, &entry, (off_t)i + 1 + N_DOTS))
			return;
	}
}

static void (*const listers[N_NODE_KINDS])(struct page *page,
					   const struct node *directory, off_t offset) = {
	[NODE_DIRECTORY] = list_fixed,
	[NODE_FOLDER] = list_folder,
	[NODE_OBJECT] = list_files,
};

/* The inode of .. for readdir(3); for lookups the kernel knows the parent itself. */
static ino_t inode_above(struct view *view, const struct node *directory)
{
	enum object_type type = directory->row->type;
	size_t n;
	const struct node_row *rows = nodes_fixed(&n);
	struct node above = { rows, TOKEN_NONE };
	struct object_stat object = { 0 };
	struct object_ref folder;

	if (node_is_fixed(directory)) {
		above.row = &rows[directory->row->parent];
		return node_inode(&above, 0);
	}
	folder = broker_above(view->broker, type, directory->token);
	if (folder.token.generation &&
	    !broker_stat(view->broker, folder.type, folder.token, &object)) {
		above = node_of_object(folder);
		return node_inode(&above, object.id);
	}
	if (type == OBJECT_FOLDER)
		type = OBJECT_ALLOCATION;
	for (size_t i = 0; i < n; i++)
		if (rows[i].kind == NODE_FOLDER && rows[i].holds == type)
			above.row = &rows[i];
	return node_inode(&above, 0);
}

static void list(struct page *page, const struct node *directory, off_t offset)
{
	struct stat stat;

	if (tree_stat(page->view, directory, &stat))
		return;
	if (offset < 1 && !page_add(page, ".", stat.st_ino, S_IFDIR, 1))
		return;
	if (offset < 2 &&
	    !page_add(page, "..", inode_above(page->view, directory), S_IFDIR, N_DOTS))
		return;
	listers[directory->row->kind](page, directory, MAX(offset, (off_t)N_DOTS));
}

/*
 * The kernel asks for as much as the reader has room for. A piece of this size takes a
 * tenth of a millisecond, and others have the thread in between.
 */
#define PIECE_BYTES ((size_t)32 << 10)

static void reply_list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		       bool with_attributes)
{
	size_t room = MIN(size, PIECE_BYTES);
	_cleanup_free_ char *bytes = malloc(room);
	struct page page = { view_of(req), req, with_attributes, bytes, room, 0 };
	struct node directory;
	int error = tree_node(page.view, ino, &directory);

	if (!error && !listers[directory.row->kind])
		error = -ENOTDIR;
	if (!error && !bytes)
		error = -ENOMEM;
	if (error) {
		reply_error(req, error);
		return;
	}
	list(&page, &directory, offset);
	fuse_reply_buf(req, bytes, page.length);
}

void list_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		  struct fuse_file_info *info)
{
	(void)info;
	reply_list(req, ino, size, offset, false);
}

void list_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		      struct fuse_file_info *info)
{
	(void)info;
	reply_list(req, ino, size, offset, true);
}
