/* SPDX-License-Identifier: MIT */
/*
 * The mappings of a process, from /proc/PID/maps.
 */
#pragma once

#include "base/def.h"

#include <stdio.h>
#include <sys/types.h>

struct mapping {
	uint64_t start;
	uint64_t end;
	char access[8]; /* as in "r-xp" */
	dev_t device;	/* of the file; not always stat()'s (btrfs, overlayfs) */
	uint64_t inode; /* 0: no file */
	const char *name; /* "" if none; valid until the next mapping is read */
};

struct maps {
	FILE *file; /* NULL if unreadable */
	char *line;
	size_t size;
};

/* Of a process, or of "self". */
void maps_open(struct maps *maps, const char *pid);

/* Lines of any length. Returns: false at the end. */
bool maps_next(struct maps *maps, struct mapping *ret_mapping);

void maps_close(struct maps *maps);
