/* SPDX-License-Identifier: MIT */
#include "base/look.h"

#include <pthread.h>
#include <sched.h>

#include "base/clock.h"

static bool possible;

static void look_count_cpus(void)
{
	cpu_set_t cpus;

	possible = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 &&
		   CPU_COUNT(&cpus) >= LOOK_CPUS;
}

bool look_is_possible(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, look_count_cpus);
	return possible;
}

bool look_is_worthwhile(const struct look *look)
{
	return look_is_possible() &&
	       (look->n_vain < LOOK_VAIN || clock_ns(CLOCK_MONOTONIC) >= look->again_ns);
}

void look_note(struct look *look, bool in_vain)
{
	look->n_vain = in_vain ? look->n_vain + 1 : 0;
	if (in_vain)
		look->again_ns = clock_ns(CLOCK_MONOTONIC) + LOOK_PAUSE_NS;
}
