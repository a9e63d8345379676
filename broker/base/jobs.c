/* SPDX-License-Identifier: MIT */
#include "base/jobs.h"

#include <pthread.h>
#include <sched.h>

#include "base/def.h"

struct jobs {
	void (*job)(void *userdata, uint32_t i);
	void *userdata;
	uint32_t n;
	uint32_t next; /* atomic */
};

static void *jobs_main(void *userdata)
{
	struct jobs *jobs = userdata;
	uint32_t i;

	while ((i = __atomic_fetch_add(&jobs->next, 1, __ATOMIC_RELAXED)) < jobs->n)
		jobs->job(jobs->userdata, i);
	return NULL;
}

static uint32_t processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) < 0 ? 1
							   : (uint32_t)CPU_COUNT(&set);
}

void jobs_run(void (*job)(void *userdata, uint32_t i), void *userdata, uint32_t n,
	      uint32_t n_threads_most)
{
	struct jobs jobs = { job, userdata, n, 0 };
	uint32_t n_most = MIN(processors(), n_threads_most);
	pthread_t threads[JOBS_THREADS_MAX];
	uint32_t n_threads = 0;

	while (n_threads + 1 < MIN(n_most, n) &&
	       pthread_create(&threads[n_threads], NULL, jobs_main, &jobs) == 0)
		n_threads++;
	jobs_main(&jobs);
	while (n_threads)
		pthread_join(threads[--n_threads], NULL);
}
