/* SPDX-License-Identifier: MIT */
/* The bytes of allocations and who may use them, as the view asks for them. */
#pragma once

#include "base/wait.h"
#include "model/access.h"
#include "model/object.h"

struct broker;

/*
 * Buffers shared with the mover, to read FUSE requests into: payloads land where the GPU
 * can take them. A buffer is `buffer_size` bytes of memory whose payload place (what
 * follows the 80 bytes of fuse_in_header and fuse_write_in) is page aligned when a
 * request is read to `memory`.
 */
struct buffer {
	int slot; /* -1: an ordinary one, made when the shared ones are all in use */
	uint8_t *memory;
	size_t size; /* at least 1 MiB + 4096 */
};

/* Returns: 0; -ENOMEM. */
int broker_buffer_get(struct broker *broker, struct buffer *ret_buffer);
void broker_buffer_put(struct broker *broker, struct buffer *buffer);

/* At most 1 MiB. Short at the end of the allocation, 0 bytes behind it. */
void broker_read(struct broker *broker, struct token token, const struct caller *caller,
		 uint64_t offset, size_t length, struct wait *wait);

/*
 * bytes stand in buffer; the broker takes the buffer (buffer->memory becomes NULL) when
 * it still needs it after the call. Errors: -ENOSPC past the end (a write that begins
 * inside is short), -ESTALE, -EIO, -EINTR.
 */
void broker_write(struct broker *broker, struct token token, const struct caller *caller,
		  uint64_t offset, const void *bytes, size_t length,
		  struct buffer *buffer, struct wait *wait);

/* Waits for writes that were answered before they reached the memory; their errors. */
void broker_sync(struct broker *broker, struct token token, const struct caller *caller,
		 struct wait *wait);

/* Zeros in [offset, offset + length), done on the GPU. -ENOSPC past the end. */
void broker_zero(struct broker *broker, struct token token, const struct caller *caller,
		 uint64_t offset, uint64_t length, struct wait *wait);

/* truncate(2): the size stays; zeros from size to the end. */
void broker_truncate(struct broker *broker, struct token token,
		     const struct caller *caller, uint64_t size, struct wait *wait);

/* Errors: only EACCES, ENOSPC, EIO, ESTALE, EINTR (see docs/filesystem.md: cp and the
 * kernel fall back in silence on others). length in done: bytes copied, 0 at the end. */
void broker_copy_range(struct broker *broker, struct token source, uint64_t source_offset,
		       struct token target, uint64_t target_offset, uint64_t length,
		       const struct caller *caller, struct wait *wait);

/*
 * The memfd behind an allocation of kind host, for mapping it; the caller closes it.
 * Returns: a descriptor; -ENODEV for other kinds; -ESTALE; -EMFILE.
 */
int broker_host_fd(struct broker *broker, struct token token);

/* chmod, chown, chgrp: mode (mode_t)-1, uid (uid_t)-1, gid (gid_t)-1 leave as it is. An
 * opening may move the allocation. Errors: -EPERM, -ESTALE, -ENOMEM, -EOPNOTSUPP. */
void broker_change(struct broker *broker, enum object_type type, struct token token,
		   const struct caller *caller, mode_t mode, uid_t uid, gid_t gid,
		   struct wait *wait);
