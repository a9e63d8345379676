/* SPDX-License-Identifier: MIT */
/*
 * Guarded copies of a launch's allocations, for run --check. The kernel gets the copies,
 * and a kernel that uses an element too many faults. The originals get the results when
 * the kernel has ended well.
 */
#pragma once

#include "mount.h"

struct guarded;

struct guards {
	const struct mount *mount;
	const char *gpu; /* for memory that is of no GPU */
	struct guarded *list;
	int n;
};

/*
 * Adds the words of a launch to the line, with copies in place of the allocations. The
 * copies end with the mount's session. Returns: an exit status.
 */
int guards_make(struct guards *guards, char **words, int n, struct text *line);

/* Copies the results back. Returns: an exit status. */
int guards_copy_back(const struct guards *guards);

/*
 * Adds the broker's sentence, with the originals' names; where the sentence names no
 * address, also which allocations were guarded.
 */
void guards_explain(const struct guards *guards, const char *sentence, struct text *text);

void guards_deinit(struct guards *guards);
