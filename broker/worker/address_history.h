/* SPDX-License-Identifier: MIT */
/* The addresses that this process has had before: a set of sorted, disjoint ranges. */
#pragma once

#include <pthread.h>

#include "base/def.h"

struct seen_range {
	uint64_t begin, end;
};

struct seen {
	pthread_mutex_t lock; /* guards everything below; a leaf */
	struct seen_range *ranges;
	size_t n, capacity;
};

/*
 * Adds [begin, end). Returns: whether a part of the range was in the set; also true when
 * there is no memory to record the range.
 */
bool seen_add(struct seen *seen, uint64_t begin, uint64_t end);
