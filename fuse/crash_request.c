/* SPDX-License-Identifier: MIT */
#include "crash_request.h"

#include "base/crash.h"
#include "base/def.h"

/* Their numbers; 0: none. Atomic. */
static uint64_t held[256];

static bool replace(uint64_t *place, uint64_t old, uint64_t new)
{
	return __atomic_compare_exchange_n(place, &old, new, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

void crash_request_begun(uint64_t unique)
{
	for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
		if (replace(&held[i], 0, unique)) {
			crash_hold();
			return;
		}
	}
}

void crash_request_answered(uint64_t unique)
{
	for (size_t i = 0; i < ARRAY_SIZE(held) && unique; i++) {
		if (replace(&held[i], unique, 0))
			crash_let_go();
	}
}
