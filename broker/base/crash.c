/* SPDX-License-Identifier: MIT */
#include "base/crash.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/def.h"

void (*crash_hook)(void);

static struct crash_plan *plan; /* NULL: this process goes on */
static bool serves;		/* atomic, as all below */
static uint64_t n_begun;	/* points before that */
static uint64_t n_served;	/* points since then */
static uint64_t n_held;
static bool is_due; /* a death of `every`, as soon as nothing is held */
static bool dies;   /* or a thread looks whether anything is held */

void crash_begin(void)
{
	const char *path = getenv("GPUMEM_CRASH");
	_cleanup_close_ int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *memory;

	if (!path)
		return;
	memory = fd < 0 ? MAP_FAILED
			: mmap(NULL, sizeof(*plan), PROT_READ | PROT_WRITE, MAP_SHARED,
			       fd, 0);
	if (memory == MAP_FAILED) {
		fprintf(stderr, "gpumemd: GPUMEM_CRASH=%s: %m\n", path);
		exit(EXIT_FAILURE);
	}
	plan = memory;
}

void crash_serves(void)
{
	__atomic_store_n(&serves, true, __ATOMIC_RELAXED);
}

bool crash_is_planned(void)
{
	return plan;
}

void crash_hold(void)
{
	__atomic_add_fetch(&n_held, 1, __ATOMIC_SEQ_CST);
	/* Where this comes too late, nobody may hear of what the thread would do next. */
	while (__atomic_load_n(&dies, __ATOMIC_SEQ_CST))
		sched_yield();
}

void crash_let_go(void)
{
	__atomic_sub_fetch(&n_held, 1, __ATOMIC_SEQ_CST);
}

/* Other threads that come to a point wait for the end of the process. */
static void die(const char *where, bool unless_held)
{
	while (__atomic_exchange_n(&dies, true, __ATOMIC_SEQ_CST))
		sched_yield();
	if (unless_held && __atomic_load_n(&n_held, __ATOMIC_SEQ_CST)) {
		__atomic_store_n(&dies, false, __ATOMIC_SEQ_CST);
		return;
	}
	__atomic_add_fetch(&plan->n_deaths, 1, __ATOMIC_RELAXED);
	snprintf(plan->where, sizeof(plan->where), "%s", where);
	kill(getpid(), SIGKILL);
	pause();
}

static bool is_planned(uint64_t point)
{
	for (int i = 0; i < CRASH_DEATHS; i++) {
		if (plan->at[i] == point)
			return true;
	}
	return false;
}

void crash_point(const char *where)
{
	uint64_t point, every;

	if (crash_hook)
		crash_hook();
	if (!plan)
		return;
	point = __atomic_add_fetch(&plan->n_points, 1, __ATOMIC_RELAXED);
	if (is_planned(point))
		die(where, false);
	if (!__atomic_load_n(&serves, __ATOMIC_RELAXED)) {
		if (__atomic_add_fetch(&n_begun, 1, __ATOMIC_RELAXED) == plan->begun)
			die(where, false);
		if (!strncmp(plan->place, where, sizeof(plan->place))) {
			plan->place[0] = '\0';
			die(where, false);
		}
		return;
	}
	/* A test changes it. */
	every = __atomic_load_n(&plan->every, __ATOMIC_RELAXED);
	if (!every)
		return;
	if (__atomic_add_fetch(&n_served, 1, __ATOMIC_RELAXED) % every == 0)
		__atomic_store_n(&is_due, true, __ATOMIC_RELAXED);
	if (__atomic_load_n(&is_due, __ATOMIC_RELAXED) &&
	    !__atomic_load_n(&n_held, __ATOMIC_SEQ_CST))
		die(where, true);
}
