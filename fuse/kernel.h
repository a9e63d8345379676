/* SPDX-License-Identifier: MIT */
/*
 * Features of the kernel without support in every libfuse: parallel writes to a file and
 * mapping the memory of a file (FUSE_PASSTHROUGH). The build chooses an implementation:
 * kernel-old.c for libfuse before 3.17, kernel-new.c from there on.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

/*
 * Background requests that may be under way; the kernel holds the others back, by default
 * all but 12. Only RELEASE is one. A user may close thousands of files in one call: a
 * lease that another program has closed would still be there when that program asks for
 * the memory.
 */
#define KERNEL_BACKGROUND_MAX 65535

/*
 * FUSE_CAP_ASYNC_READ: reads ahead would wait in the background, and readahead(2) would
 * return before they are done. A single thread had 60,000 of them under way, and all
 * others waited behind these. Without the flag the caller waits for each.
 *
 * FUSE_CAP_ATOMIC_O_TRUNC: the kernel would take a file opened with O_TRUNC for empty,
 * until the next stat(2). Without the flag O_TRUNC is a SETATTR, and the reply has the
 * size of the file.
 *
 * FUSE_CAP_ASYNC_DIO: asynchronous reads and writes (io_submit(2) with O_DIRECT) would
 * wait here for their turn. A process that ends waits for their end before it closes a
 * file, deaf to signals: behind a hold of its own for ever. Without the flag the caller
 * waits, and signals end the wait.
 */
#define KERNEL_UNWANTED                                                                 \
	(FUSE_CAP_ASYNC_READ | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_ASYNC_DIO)

/* After the mount, before the first request. Answers take the view's pace (pace.h).
 * Returns: 0; -errno. */
int kernel_hook(struct fuse_session *session);

/* Sends an answer that is complete. Returns: as writev(2). */
ssize_t kernel_send(int fd, struct iovec *iov, int n);

/* Looks at a request before libfuse does. */
void kernel_look(const struct fuse_buf *request);

/* In the INIT operation: asks for the kernel's features. */
void kernel_init(struct fuse_conn_info *connection);

/* Can files be mapped here, as far as is known? */
bool kernel_can_map(void);

/* Answers an OPEN of data: direct, writes in parallel; mapped by backing unless it is 0.
 * Returns: as fuse_reply_open. */
int kernel_reply_open(fuse_req_t req, struct fuse_file_info *info, int backing);
