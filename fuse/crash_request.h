/* SPDX-License-Identifier: MIT */
/*
 * Tests (base/crash.h): while a request is under way that is EIO after a death, a broker
 * does not kill itself but where the plan says.
 */
#pragma once

#include <stdint.h>

#ifdef CRASH_POINTS
void crash_request_begun(uint64_t unique);
void crash_request_answered(uint64_t unique);
#else
static inline void crash_request_begun(uint64_t unique)
{
	(void)unique;
}

static inline void crash_request_answered(uint64_t unique)
{
	(void)unique;
}
#endif
