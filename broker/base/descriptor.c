/* SPDX-License-Identifier: MIT */
#include "base/descriptor.h"

#include <sys/eventfd.h>
#include <sys/resource.h>

/* Kept: an eighth of the limit, at least KEPT_LEAST, at most half of the limit. */
#define KEPT_LEAST 256

uint64_t descriptors_most(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return UINT32_MAX;
	return limit.rlim_cur;
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
