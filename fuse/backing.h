/* SPDX-License-Identifier: MIT */
/*
 * Memory mapped for a file by the kernel itself (FUSE_PASSTHROUGH), by a number. The
 * numbers belong to the mount, and outlive the broker.
 */
#pragma once

#include <stdint.h>

/* All requests here go to this connection of a mount. */
void backing_begin(int fd);

/* Gives the kernel the memory behind a file. Returns: a number above 0; -errno. */
int backing_open(int fd);

/* Takes the number back. Files that are open keep the memory. */
void backing_close(uint32_t backing);
