/* SPDX-License-Identifier: MIT */
/* Clocks in nanoseconds; time limits in milliseconds of CLOCK_MONOTONIC. */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline int64_t clock_ms(void)
{
	return (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000);
}

/* Sleeps for less than a second. A signal ends it early. */
static inline void clock_pause(long ns)
{
	(void)nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

/*
 * Makes a condition for clock_cond_wait(). Changes of the machine's clock do not affect
 * its waits.
 */
static inline void clock_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attributes);
	pthread_condattr_destroy(&attributes);
}

/* Waits until a time of clock_ms(). Returns: 0; ETIMEDOUT. */
static inline int clock_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  int64_t until_ms)
{
	const struct timespec until = { until_ms / 1000, until_ms % 1000 * 1000000 };

	return pthread_cond_timedwait(cond, lock, &until);
}
