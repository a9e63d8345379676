/* SPDX-License-Identifier: MIT */
/*
 * A histogram of durations, for the hot path: an addition takes no lock and waits for
 * nobody. The bounds of the buckets double, from 16 µs to 67 s.
 */
#pragma once

#include <stdint.h>

#define HISTOGRAM_BOUNDS 23

struct histogram {
	uint64_t n[HISTOGRAM_BOUNDS + 1]; /* atomic, like sum_ns; the last: beyond all */
	uint64_t sum_ns;
};

void histogram_add(struct histogram *histogram, uint64_t ns);

/* The upper bound of a bucket: durations up to this are in it or in one before. */
static inline uint64_t histogram_bound_ns(unsigned int bucket)
{
	return (uint64_t)16000 << bucket;
}

/* Copies a histogram that others add to. An addition under way is in it or not. */
void histogram_read(const struct histogram *histogram, struct histogram *ret_copy);
