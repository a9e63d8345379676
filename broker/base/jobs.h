/* SPDX-License-Identifier: MIT */
/* Jobs side by side, for work that others wait for. */
#pragma once

#include <stdint.h>

#define JOBS_THREADS_MAX 8

/*
 * Runs job(userdata, 0) to job(userdata, n - 1), begun in this order, in the calling
 * thread and in more, up to n_threads (at most JOBS_THREADS_MAX) in all, while there are
 * processors for them. Returns when all are done. Without memory for threads the calling
 * thread runs all.
 */
void jobs_run(void (*job)(void *userdata, uint32_t i), void *userdata, uint32_t n,
	      uint32_t n_threads);
