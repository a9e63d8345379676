/* SPDX-License-Identifier: MIT */
/*
 * An open descriptor of a file that is written whole: `image` of modules, `tensors` of
 * allocations.
 *
 * Reads give the contents at the time of the open. The first write makes a private copy.
 * The first close after a write stores this copy, and later writes continue from there.
 * Other readers do not see the copy before it is stored.
 *
 * All functions may be called from any thread.
 */
#pragma once

#include "api/broker.h"

struct upload;

/*
 * The object is a module or an allocation. Who opens contents that another user is
 * charged for is charged, too, as long as the descriptor is open. Returns: 0; -ESTALE
 * when the object is gone; -EDQUOT, -EMFILE, -ENOMEM.
 */
int upload_new(struct upload **ret_upload, struct broker *broker, enum object_type type,
	       struct token token, const struct caller *caller);
/* Discards bytes that are not stored. Takes NULL. */
struct upload *upload_free(struct upload *upload);

uint64_t upload_size(struct upload *upload);

/* Returns: bytes read, 0 at the end; -EIO. */
long upload_read(struct upload *upload, uint64_t offset, void *bytes, size_t size);

/*
 * pid is the writer's. Returns: 0; -EFBIG beyond the most that the file takes; -EINVAL
 * for tensors that are wrong from the start; -ENOMEM, -EDQUOT, -EMFILE, -ESTALE.
 */
int upload_write(struct upload *upload, pid_t pid, uint64_t offset, const void *bytes,
		 size_t size);

/*
 * truncate(2) on the descriptor; does not count as a write. Tensors are removed when the
 * descriptor is freed without a write since. Returns: as upload_write().
 */
int upload_resize(struct upload *upload, pid_t pid, uint64_t size);

/*
 * close(2): stores bytes written since the last close. Errors of done: -ENOEXEC for an
 * image that can't be loaded there, -EINVAL for wrong tensors, -ENOMEM, -EDQUOT, -EIO,
 * -EOPNOTSUPP, -ESTALE, and -EINTR, after which the bytes are stored all the same.
 */
void upload_flush(struct upload *upload, pid_t pid, struct completion *wait);
