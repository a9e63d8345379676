/* SPDX-License-Identifier: MIT */
/* The few macros used everywhere: ownership of locals, sizes, embedding. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define MIN(a, b)                              \
	({                                     \
		__typeof__(a) min_a = (a);     \
		__typeof__(b) min_b = (b);     \
		min_a < min_b ? min_a : min_b; \
	})
#define MAX(a, b)                              \
	({                                     \
		__typeof__(a) max_a = (a);     \
		__typeof__(b) max_b = (b);     \
		max_a > max_b ? max_a : max_b; \
	})

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define _printf_(f, a)			__attribute__((format(printf, f, a)))
#define _cleanup_(f)			__attribute__((cleanup(f)))

/* Hands a pointer over: returns its value and sets it to NULL. */
#define take_ptr(p)                            \
	({                                     \
		__typeof__(p) taken_ptr = (p); \
		(p) = NULL;                    \
		taken_ptr;                     \
	})

/* Hands a descriptor over: returns it and sets the variable to -1. */
static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

static inline void freep(void *p)
{
	free(*(void **)p);
}

static inline void closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

#define _cleanup_free_	_cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)

/* Rounds up to a multiple of a power of two. */
static inline uint64_t align_up(uint64_t value, uint64_t to)
{
	return (value + to - 1) & ~(to - 1);
}
