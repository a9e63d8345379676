/* SPDX-License-Identifier: MIT */
#include "base/descriptor.h"
#include "base/proc.h"

#include <stdio.h>
#include <sys/eventfd.h>

/* Kept: an eighth of the limit, at least KEPT_LEAST, at most half of the limit. */
#define KEPT_LEAST 256

/* How many mappings Linux lets a process have. */
static uint64_t mappings_most(void)
{
	static uint64_t most; /* atomic; 0: not read yet */
	unsigned long long number = __atomic_load_n(&most, __ATOMIC_RELAXED);
	FILE *file;

	if (number)
		return number;
	file = proc_fopen("sys/vm/max_map_count");
	if (!file || fscanf(file, "%llu", &number) != 1 || !number)
		number = UINT32_MAX;
	if (file)
		fclose(file);
	__atomic_store_n(&most, number, __ATOMIC_RELAXED);
	return number;
}

struct rlimit descriptors_raise(void)
{
	struct rlimit before = { 0 }, most;

	if (getrlimit(RLIMIT_NOFILE, &before) == 0) {
		most = before;
		most.rlim_cur = most.rlim_max;
		setrlimit(RLIMIT_NOFILE, &most);
	}
	return before;
}

/* Each block of host memory has a descriptor and a mapping. */
uint64_t descriptors_most(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		limit.rlim_cur = UINT32_MAX;
	return MIN((uint64_t)limit.rlim_cur, mappings_most());
}

static uint64_t descriptors_kept(void)
{
	uint64_t most = descriptors_most();

	return MIN(MAX(most / 8, (uint64_t)KEPT_LEAST), most / 2);
}

/* A new descriptor has the lowest free number, so the number shows how many are left. */
bool descriptor_is_left(void)
{
	_cleanup_close_ int fd = eventfd(0, EFD_CLOEXEC);

	return fd >= 0 && (uint64_t)fd < descriptors_most() - descriptors_kept();
}
