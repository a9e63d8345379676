/* SPDX-License-Identifier: MIT */
/*
 * What the last keeper has left: a restart of the service. Between two keepers there is
 * no process. The service manager holds a few sockets and looks at none, and all
 * descriptors lie in their queues. Here they stay until left_forget(), so that a keeper
 * that dies before it is ready is followed by another with the same.
 */
#pragma once

#include <stddef.h>

#include "base/text.h"
#include "keep/keep.h"

struct kept {
	struct keep_key key;
	int fd; /* -1: taken */
};

struct left {
	char *mountpoint; /* NULL: there was no keeper */
	struct kept *kept;
	size_t n, capacity;
	int *sockets;
	size_t n_sockets;
};

/* Raises no limit of open files. Returns: 0; -errno with a sentence where a part is
 * missing. Both ways the sockets are the struct's. */
int left_read(struct left *ret_left, int *sockets, size_t n_sockets, struct text *why);

/* Closes what was not taken, and empties the queues: the last copy may go with that. */
void left_forget(struct left *left);

/* Closes what was not taken; the queues stay as they are. */
void left_deinit(struct left *left);
