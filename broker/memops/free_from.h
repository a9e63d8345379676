/* SPDX-License-Identifier: MIT */
/* Frees the memory of a cgroup (`free cgroup=`). */
#pragma once

#include <stdint.h>

struct broker;
struct caller;

/*
 * Frees all allocations that were made from the cgroup or below it: the caller's own, all
 * for root. Returns: how many; *ret_bytes is their size. No lock held.
 */
uint64_t allocations_free_from(struct broker *broker, const struct caller *caller,
			       const char *cgroup, uint64_t *ret_bytes);
