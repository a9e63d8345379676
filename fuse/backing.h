/* SPDX-License-Identifier: MIT */
/*
 * Memory that the kernel maps for a file itself (FUSE_PASSTHROUGH), by numbers that are
 * the mount's. They outlive the process that asked for them.
 */
#pragma once

#include <stdint.h>

struct fuse_session;

/* The session's device is the one that is asked. */
void backing_begin(struct fuse_session *session);

/* Gives the kernel the memory behind a file. Returns: a number above 0; -errno. */
int backing_open(int fd);

/* Takes it back, from opens to come: who has the file open keeps the memory. */
void backing_close(uint32_t backing);
