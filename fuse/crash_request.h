/* SPDX-License-Identifier: MIT */
/*
 * Tests (base/crash.h): while a request is under way that is EIO after a death, a broker
 * does not kill itself but where the plan says.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#ifdef CRASH_POINTS
/* As read(2) of the mount's descriptor. The request that it returns is held. */
ssize_t crash_request_read(int fd, void *bytes, size_t size);
void crash_request_answered(uint64_t unique);
#else
static inline ssize_t crash_request_read(int fd, void *bytes, size_t size)
{
	return read(fd, bytes, size);
}

static inline void crash_request_answered(uint64_t unique)
{
	(void)unique;
}
#endif
