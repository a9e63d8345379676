/* SPDX-License-Identifier: MIT */
#include "base/look.h"

#include <pthread.h>
#include <sched.h>

#include "base/clock.h"

static int n_cpus;

static void look_count_cpus(void)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		n_cpus = CPU_COUNT(&cpus);
}

bool look_has_cpus(int n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, look_count_cpus);
	return n_cpus >= n;
}

bool look_is_possible(void)
{
	return look_has_cpus(LOOK_CPUS);
}

bool look_is_due(const struct look *look)
{
	return look->n_vain < LOOK_VAIN || clock_ns(CLOCK_MONOTONIC) >= look->again_ns;
}

bool look_is_worthwhile(const struct look *look)
{
	return look_is_possible() && look_is_due(look);
}

void look_note(struct look *look, bool in_vain)
{
	look->n_vain = in_vain ? look->n_vain + 1 : 0;
	if (in_vain)
		look->again_ns = clock_ns(CLOCK_MONOTONIC) + LOOK_PAUSE_NS;
}

void look_for(struct look *look, uint64_t ns, bool (*found)(void *userdata),
	      void *userdata)
{
	const uint64_t end = clock_ns(CLOCK_MONOTONIC) + ns;
	bool has_found = found(userdata);

	while (!has_found && clock_ns(CLOCK_MONOTONIC) < end) {
		look_relax();
		has_found = found(userdata);
	}
	look_note(look, !has_found);
}
