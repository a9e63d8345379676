/* SPDX-License-Identifier: MIT */
#include "base/histogram.h"

#include "base/def.h"

static unsigned int bucket_of(uint64_t ns)
{
	uint64_t n_firsts = ns ? (ns - 1) / histogram_bound_ns(0) : 0;

	if (n_firsts == 0)
		return 0;
	return (unsigned int)MIN(64 - __builtin_clzll(n_firsts), HISTOGRAM_BOUNDS);
}

void histogram_add(struct histogram *histogram, uint64_t ns)
{
	__atomic_add_fetch(&histogram->n[bucket_of(ns)], 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&histogram->sum_ns, ns, __ATOMIC_RELAXED);
}

void histogram_read(const struct histogram *histogram, struct histogram *ret_copy)
{
	for (unsigned int i = 0; i <= HISTOGRAM_BOUNDS; i++)
		ret_copy->n[i] = __atomic_load_n(&histogram->n[i], __ATOMIC_RELAXED);
	ret_copy->sum_ns = __atomic_load_n(&histogram->sum_ns, __ATOMIC_RELAXED);
}
