/* SPDX-License-Identifier: MIT */
/*
 * The descriptors of this process. The last ones are kept for workers, the mover and the
 * view, which must go on when memory has used up all others.
 */
#pragma once

#include <stddef.h>
#include <sys/resource.h>

#include "base/def.h"

#define DESCRIPTORS_GONE \
	"the broker has no descriptors left: it keeps the last ones for workers"

/* Raises the limit of this process to the most allowed. Returns: the limit of before. */
struct rlimit descriptors_raise(void);

/* The limit of this process; no more than it may have mappings, vm.max_map_count. */
uint64_t descriptors_most(void);

/* Whether there is a descriptor left besides the kept ones. */
bool descriptor_is_left(void);

/* Sends a record over a SEQPACKET socket, with a descriptor (-1: none). Returns: 0; -errno. */
int descriptor_send(int socket, const void *record, size_t size, int fd);
