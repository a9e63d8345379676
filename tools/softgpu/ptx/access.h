/* SPDX-License-Identifier: MIT */
/* Memory as seen by an op: checked addresses, and accesses of a single size each. */
#pragma once

#include "warp.h"

/*
 * Where an access of a lane goes.
 *
 * Returns: the place, or NULL after a fault.
 */
unsigned char *access_reach(struct warp *warp, const struct op *op, uint32_t lane,
			    uint64_t address, uint32_t size, enum access_way way);

/* A copy of a string in generic memory, cut at a limit; NULL after a fault. */
char *access_string(struct warp *warp, uint32_t lane, uint64_t address, size_t limit);

/*
 * Kernels may race with each other, as on hardware. So every access is a relaxed atomic
 * access, at no cost. The place is aligned.
 */
static inline uint64_t access_load(const unsigned char *at, uint32_t size)
{
	switch (size) {
	case 1:
		return __atomic_load_n(at, __ATOMIC_RELAXED);
	case 2:
		return __atomic_load_n((const uint16_t *)(const void *)at,
				       __ATOMIC_RELAXED);
	case 4:
		return __atomic_load_n((const uint32_t *)(const void *)at,
				       __ATOMIC_RELAXED);
	default:
		return __atomic_load_n((const uint64_t *)(const void *)at,
				       __ATOMIC_RELAXED);
	}
}

static inline void access_store(unsigned char *at, uint32_t size, uint64_t value)
{
	switch (size) {
	case 1:
		__atomic_store_n(at, (unsigned char)value, __ATOMIC_RELAXED);
		break;
	case 2:
		__atomic_store_n((uint16_t *)(void *)at, (uint16_t)value,
				 __ATOMIC_RELAXED);
		break;
	case 4:
		__atomic_store_n((uint32_t *)(void *)at, (uint32_t)value,
				 __ATOMIC_RELAXED);
		break;
	default:
		__atomic_store_n((uint64_t *)(void *)at, value, __ATOMIC_RELAXED);
		break;
	}
}

/* Everything before the fence is seen before everything after the fence, by all. */
void access_fence(void);
