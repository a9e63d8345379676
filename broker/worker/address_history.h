/* SPDX-License-Identifier: MIT */
/* Which addresses this process has had before: a set of ranges, sorted and apart. */
#pragma once

#include <pthread.h>

#include "base/def.h"

struct seen_range {
	uint64_t begin, end;
};

struct seen {
	pthread_mutex_t lock; /* guards all below; a leaf */
	struct seen_range *ranges;
	size_t n, capacity;
};

/*
 * Adds [begin, end). Returns: whether any of it was there, true also where there is no
 * memory to know it.
 */
bool seen_add(struct seen *seen, uint64_t begin, uint64_t end);
