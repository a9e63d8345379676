/* SPDX-License-Identifier: MIT */
/* Clocks in nanoseconds. Records carry CLOCK_MONOTONIC's. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
