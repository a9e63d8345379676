/* SPDX-License-Identifier: MIT */
/*
 * Open files. Each kind of node opens into a file of a type (file_*.c), and operations on
 * a descriptor go through the table of the type.
 */
#pragma once

#include "base/handle_table.h"
#include "base/hash.h"
#include "node.h"
#include "request.h"

struct file;

/* Operations on an open file; NULL: not permitted (see operations.c). Each answers the
 * request exactly once. */
struct file_type {
	bool outlives; /* a descriptor is good after the broker's death */
	void (*read)(struct file *file, fuse_req_t req, size_t size, off_t offset,
		     const struct fuse_file_info *info);
	/* A read for the kernel's own pages; NULL: EINVAL. */
	void (*refuse)(struct file *file, fuse_req_t req);
	void (*write)(struct file *file, fuse_req_t req, const char *bytes, size_t size,
		      off_t offset, const struct fuse_file_info *info);
	void (*sync)(struct file *file, fuse_req_t req);  /* flush and fsync */
	void (*close)(struct file *file, fuse_req_t req); /* flush, instead of sync */
	void (*ioctl)(struct file *file, fuse_req_t req, unsigned int code,
		      const void *bytes, size_t size);
	void (*poll)(struct file *file, fuse_req_t req, struct fuse_pollhandle *handle);
	void (*lseek)(struct file *file, fuse_req_t req, off_t offset, int whence);
	void (*fallocate)(struct file *file, fuse_req_t req, int mode, off_t offset,
			  off_t length);
	void (*free)(struct file *file, fuse_req_t req); /* req NULL: at the end */
};

/* Embedded first in every type of open file. */
struct file {
	const struct file_type *type;
	struct view *view;
	struct opener *opener; /* charged for the file; files.lock */
	uint32_t slot, slot_generation;
};

struct upload_file;

/* The most that one user has open, so that no user fills the broker's memory. */
#define FILES_OF_USER_MAX 16384

struct opener {
	uid_t uid;
	unsigned int n_open;
	UT_hash_handle hh;
};

/* All open files, to close them when the kernel sends no RELEASE any more. */
struct files {
	pthread_mutex_t lock;
	struct handle_table open; /* lock, like the next: */
	struct opener *openers;	  /* users with open files, by uid */
	struct upload_file
		*unused_uploads; /* file_upload.c: by the thread that opened them */
};

/* See handle_table_begin(). */
void files_init(struct files *files, uint32_t *generations_end);
void files_deinit(struct files *files);

/*
 * A descriptor's file is a number for the kernel: the slot and its generation. So the
 * number means the same in any process that serves the mount, and a number that is
 * unknown is seen as such.
 */
uint64_t file_handle(const struct file *file);

/* The open file of a descriptor; NULL: none. */
struct file *file_of(struct view *view, const struct fuse_file_info *info);

/* Appends the path in the mount. */
void file_path(const struct view *view, const struct node *node, struct text *path);

/* Whether the caller may open one more file. Returns: 0; -EMFILE, in the journal. */
int files_allow(struct view *view, fuse_req_t req, const struct node *node);

/* A new file of size bytes, beginning with struct file. Returns: NULL without memory. */
void *file_new(struct view *view, fuse_req_t req, const struct file_type *type,
	       size_t size);

/* The file of a descriptor that an earlier broker opened; in the order of numbers. */
void *file_restore(struct view *view, uid_t uid, uint64_t handle,
		   const struct file_type *type, size_t size);
struct file *file_free(struct file *file, fuse_req_t req);

/* Refuses to open a file of a sealed allocation for writing. Returns: 0; -EPERM, -ESTALE.
 */
int file_refuse_sealed(struct view *view, fuse_req_t req, const struct node *node,
		       const struct fuse_file_info *info, const struct object_stat *stat);

/*
 * Leaves a large read to the lane of such (transport.h) where the copying would keep
 * others waiting. Returns: whether the handler has nothing more to do with the request.
 */
bool file_reads_later(struct view *view, fuse_req_t req, size_t size);

/* Answers an OPEN; info's flags say how. Closes the file when the kernel gave up. */
void file_reply(fuse_req_t req, struct file *file, struct fuse_file_info *info);

/* OPEN of each kind of node. The kernel checks operations against the open mode. */
typedef void file_open(struct view *view, fuse_req_t req, const struct node *node,
		       struct fuse_file_info *info);
file_open file_text_open;    /* every file of text */
file_open file_control_open; /* control files */
file_open file_events_open;  /* events_pipe */
file_open file_lease_open;   /* lease of allocations */
file_open file_data_open;    /* data of allocations */
file_open file_upload_open;  /* image of modules, tensors of allocations */

/* Closes a lease that an earlier broker opened for a request without an answer. */
void file_lease_close_unanswered(struct view *view, uint64_t unique);

/* Leases that an earlier broker opened. Returns: 0; -ENOMEM. */
int file_lease_resume(struct view *view);

/* SETATTR of the size of data. */
void file_data_truncate(struct view *view, struct request *request, struct token token,
			uint64_t size);

/* SETATTR of the size of such a file, by a descriptor. Returns: 0; -EFBIG, -ENOMEM. */
int file_upload_resize(struct file *file, fuse_req_t req, uint64_t size);

/* SETATTR of size 0 without a descriptor: the second half of an open(2) with O_TRUNC,
 * else without effect. Returns: 0; -ENOMEM. */
int file_upload_truncate(struct view *view, fuse_req_t req, const struct node *node);

/* COPY_FILE_RANGE. */
void file_data_copy(fuse_req_t req, struct file *source, off_t source_offset,
		    struct file *target, off_t target_offset, size_t length);

static inline bool opened_for_writing(const struct fuse_file_info *info)
{
	return (info->flags & O_ACCMODE) != O_RDONLY;
}
