/* SPDX-License-Identifier: MIT */
/*
 * Descriptors left by the last keeper, at a restart of the service. No process of gpumem
 * runs between two keepers. The service manager holds a few sockets without reading them,
 * and all descriptors lie in their queues. The queues stay as they are until
 * left_forget(): if a keeper dies before it is ready, the next one finds the same.
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

/*
 * Does not raise the limit of open files. Returns: 0; -errno with a sentence if a part is
 * missing. Takes the sockets in either case.
 */
int left_read(struct left *ret_left, int *sockets, size_t n_sockets, struct text *why);

/*
 * Closes the descriptors not taken, and empties the queues. These copies may be the last.
 */
void left_forget(struct left *left);

/* Closes the descriptors not taken; the queues stay as they are. */
void left_deinit(struct left *left);
