/* SPDX-License-Identifier: MIT */
/*
 * The option crash_points, for tests: a broker kills itself at a place of its own. A
 * point stands beside each step that the next broker or a user can see: a store to the
 * records, a message to the keeper, an answer to the kernel, a request of a worker. What
 * happens between two points is seen by nobody, so a death there is the same as at the
 * first.
 *
 * GPUMEM_CRASH names a file with a struct crash_plan. All brokers of a keeper share the
 * file, so its count goes on after a death. Without the variable nothing happens; without
 * the option nothing of this is compiled.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CRASH_DEATHS 8

/* A test writes the numbers; a broker counts, and notes where it died. */
struct crash_plan {
	uint64_t n_points;	   /* passed by all brokers */
	uint64_t at[CRASH_DEATHS]; /* deaths at these counts; 0: none */
	uint64_t every;		   /* a death at every so many points; 0: none */
	uint64_t n_deaths;
	char where[64]; /* of the last death */
	uint64_t begun; /* a death at this point of each broker that begins; 0: none */
	char place[64]; /* the next one that begins dies at this point, once; "": none */
};

#ifdef CRASH_POINTS

/* Tests in the same process: called at each point. */
extern void (*crash_hook)(void);

void crash_point(const char *where);

/* Whether GPUMEM_CRASH is there for this process. */
bool crash_is_planned(void);

/* The process is a broker with a keeper, and may die from here on. */
void crash_begin(void);

/* It has answered a request: `every` counts from here on. */
void crash_serves(void);

/*
 * What a death would rightly change for a user, `every` does not hit: while something is
 * held (a line under way, an open file that goes stale), the death waits.
 */
void crash_hold(void);
void crash_let_go(void);

#else

static inline void crash_point(const char *where)
{
	(void)where;
}

static inline bool crash_is_planned(void)
{
	return false;
}

static inline void crash_begin(void)
{
}

static inline void crash_serves(void)
{
}

static inline void crash_hold(void)
{
}

static inline void crash_let_go(void)
{
}

#endif
