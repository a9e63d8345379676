/* SPDX-License-Identifier: MIT */
/*
 * An open descriptor of a module's `image`.
 *
 * Reads give the image that was loaded at open. The first write makes a private copy. The
 * first close after a write loads this copy, and later writes continue from there. Other
 * readers do not see the copy before it is loaded.
 *
 * All functions may be called from any thread.
 */
#pragma once

#include "api/broker.h"

struct upload;

/* Returns: 0; -ESTALE when the module is gone; -ENOMEM, -EMFILE. */
int upload_new(struct upload **ret_upload, struct broker *broker, struct token module,
	       const struct caller *caller);
/* Discards bytes not loaded. Takes NULL. */
struct upload *upload_free(struct upload *upload);

uint64_t upload_size(struct upload *upload);

/* Returns: bytes read, 0 at the end; -EIO. */
long upload_read(struct upload *upload, uint64_t offset, void *bytes, size_t size);

/* pid is the writer's. Returns: 0; -EFBIG beyond 256 MiB; -ENOMEM, -EMFILE. */
int upload_write(struct upload *upload, pid_t pid, uint64_t offset, const void *bytes,
		 size_t size);

/*
 * truncate(2) on the descriptor; does not count as a write. Returns: as upload_write().
 */
int upload_resize(struct upload *upload, pid_t pid, uint64_t size);

/*
 * close(2): loads bytes written since the last close. Errors of done: -ENOEXEC for an
 * image that can't be loaded there, -ENOMEM, -EIO, -EOPNOTSUPP, -ESTALE, and -EINTR,
 * after which the load goes on.
 */
void upload_flush(struct upload *upload, pid_t pid, struct completion *wait);
