/* SPDX-License-Identifier: MIT */
#include "base/descriptor.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <sys/resource.h>

static rlim_t n_files;

int __wrap_getrlimit64(int resource, struct rlimit *limit);

int __wrap_getrlimit64(int resource, struct rlimit *limit)
{
	(void)resource;
	*limit = (struct rlimit){ n_files, n_files };
	return 0;
}

Test(descriptor, no_more_than_there_may_be_mappings)
{
	unsigned long long n_mappings;
	FILE *file = fopen("/proc/sys/vm/max_map_count", "r");

	cr_assert(ne(ptr, file, NULL));
	cr_assert(eq(int, fscanf(file, "%llu", &n_mappings), 1));
	fclose(file);
	n_files = 1000;
	cr_expect(eq(u64, descriptors_most(), 1000));
	n_files = (rlim_t)n_mappings * 10;
	cr_expect(eq(u64, descriptors_most(), n_mappings));
	n_files = RLIM_INFINITY;
	cr_expect(eq(u64, descriptors_most(), n_mappings));
}
