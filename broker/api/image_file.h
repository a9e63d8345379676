/* SPDX-License-Identifier: MIT */
/*
 * One open descriptor of a module's `image`.
 *
 * It reads as the image that was loaded when it was opened. What is written makes an
 * image of the descriptor's own, which begins as that one; the first close after a write has it loaded, and what is written then
 * goes on from there. Nobody else sees it before it has loaded.
 *
 * Any function may be called from any thread.
 */
#pragma once

#include "api/broker.h"

struct upload;

/* Returns: 0; -ESTALE when the module has gone; -ENOMEM, -EMFILE. */
int upload_new(struct upload **ret_upload, struct broker *broker, struct token module,
	       const struct caller *caller);
/* Forgets what was not loaded. Takes NULL. */
struct upload *upload_free(struct upload *upload);

uint64_t upload_size(struct upload *upload);

/* Returns: bytes read, 0 at the end; -EIO. */
long upload_read(struct upload *upload, uint64_t offset, void *bytes, size_t size);

/* pid is the writer's. Returns: 0; -EFBIG beyond 256 MiB; -ENOMEM, -EMFILE. */
int upload_write(struct upload *upload, pid_t pid, uint64_t offset, const void *bytes,
		 size_t size);

/* truncate(2) on the descriptor: no write by itself. Returns: as upload_write(). */
int upload_resize(struct upload *upload, pid_t pid, uint64_t size);

/*
 * close(2) by somebody: loads what was written since the last one. Errors of done:
 * -ENOEXEC for what can't be loaded there, -ENOMEM, -EIO, -EOPNOTSUPP, -ESTALE, and
 * -EINTR, after which the load goes on.
 */
void upload_flush(struct upload *upload, pid_t pid, struct wait *wait);
