/* SPDX-License-Identifier: MIT */
/* Data and permissions of allocations, for the view. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "model/object.h"

struct broker;
struct caller;
struct completion;

/*
 * Buffers shared with the mover, for reading FUSE requests: the GPU can read payloads in
 * place. When a request is read to `memory`, its payload (after the 80 bytes of
 * fuse_in_header and fuse_write_in) is page aligned.
 */
struct buffer {
	int slot; /* -1: ordinary memory, used when all shared buffers are taken */
	uint8_t *memory;
	size_t size; /* at least 1 MiB + 4096 */
};

/* Returns: 0; -ENOMEM. */
int broker_buffer_get(struct broker *broker, struct buffer *ret_buffer);
void broker_buffer_put(struct broker *broker, struct buffer *buffer);

/* Reads at most 1 MiB: less at the end of the allocation, 0 bytes behind the end. */
void broker_read(struct broker *broker, struct token token, const struct caller *caller,
		 uint64_t offset, size_t length, struct completion *wait);

/*
 * An open descriptor of `data`, which is told of the failures of writes. Embedded in the
 * view's own record of the descriptor.
 */
struct writer {
	struct token token;
	uint64_t number;	/* dealt once */
	uint32_t n_errors_told; /* of the allocation's; registry.lock, like the next: */
	bool has_queued;	/* works that perhaps go on */
};

void broker_writer_init(struct broker *broker, struct writer *writer, struct token token);

/*
 * bytes lie in buffer. If the broker needs the buffer after the call, the broker takes it
 * (buffer->memory becomes NULL). Errors: -ENOSPC past the end (a write across the end is
 * cut), -ESTALE, -EIO, -EINTR.
 */
void broker_write(struct broker *broker, struct writer *writer,
		  const struct caller *caller, uint64_t offset, const void *bytes,
		  size_t length, struct buffer *buffer, struct completion *wait);

/*
 * Waits for the writer's writes, zeros and copies that were answered before they reached
 * the memory. Reports the last failure of any such write of the allocation since the
 * writer was opened or told of one. The writer exists until the answer.
 */
void broker_sync(struct broker *broker, struct writer *writer,
		 const struct caller *caller, struct completion *wait);

/*
 * Zeroes [offset, offset + length) on the GPU. -ENOSPC past the end. Answers once the
 * zeros have their place in the order of uses; broker_sync() reports later failures.
 */
void broker_zero(struct broker *broker, struct writer *writer,
		 const struct caller *caller, uint64_t offset, uint64_t length,
		 struct completion *wait);

/*
 * truncate(2): zeroes from size to the end. The size of the allocation stays. Answers
 * once the zeros have their place in the order of uses.
 */
void broker_truncate(struct broker *broker, struct token token,
		     const struct caller *caller, uint64_t size, struct completion *wait);

/*
 * Errors: only EACCES, ENOSPC, EIO, ESTALE, EINTR; on others cp and the kernel fall back
 * silently (see docs/filesystem.md). done's length: bytes copied, 0 at the end. Answers
 * as broker_zero().
 */
void broker_copy_range(struct broker *broker, struct token source, uint64_t source_offset,
		       struct writer *target, uint64_t target_offset, uint64_t length,
		       const struct caller *caller, struct completion *wait);

/*
 * Counts an open of `data` by a user for reading and writing, through which a program can
 * map the memory. Returns: 0; -EPERM for a sealed allocation; -ESTALE;
 * -ENOMEM.
 */
int broker_note_opening(struct broker *broker, struct token token, uid_t uid);

/* The kernel has carried out the open, and knows of the program. */
void broker_note_opened(struct broker *broker, struct token token);

/*
 * Opens the memfd of an allocation of kind host, for mapping. The caller closes the
 * descriptor. Returns: a descriptor; -ENODEV for other kinds, and for memory in a block
 * with other allocations; -ESTALE; -EMFILE.
 */
int broker_host_fd(struct broker *broker, struct token token);

/*
 * The kernel's number of such memory stays the same until the memory is freed, in the
 * next brokers, too: while a file is open, the kernel opens it again only with the same
 * number. Returns: the number; 0: none was noted.
 */
uint32_t broker_backing(struct broker *broker, struct token token);

/* Returns: 0; -ESTALE, and the number is the caller's. */
int broker_note_backing(struct broker *broker, struct token token, uint32_t backing);

/*
 * From here on the kernel is told when memory with a number is freed. Before
 * broker_begin(), where a broker goes on with a mount. NULL: no more.
 */
void broker_close_backings(struct broker *broker, void (*close)(uint32_t backing));

/* The last number noted, by this broker or an earlier one. 0: none. */
uint32_t broker_last_backing(struct broker *broker);

/*
 * chmod, chown, chgrp. The values (mode_t)-1, (uid_t)-1 and (gid_t)-1 mean no change.
 * Waits for no GPU and no worker: the change counts from the return on. Returns: 0;
 * -EPERM, -ESTALE, -ENOMEM, -EMFILE.
 */
int broker_change(struct broker *broker, enum object_type type, struct token token,
		  const struct caller *caller, mode_t mode, uid_t uid, gid_t gid);
