/* SPDX-License-Identifier: MIT */
/*
 * The descriptors of this process. The last of them are kept for what must go on when
 * memory has taken all others: workers, the mover, the view.
 */
#pragma once

#include "base/def.h"

#define DESCRIPTORS_GONE \
	"the broker has no descriptors left: it keeps the last ones for workers"

/* How many the process may have. */
uint64_t descriptors_most(void);

/* Whether one more can be had beside those that are kept. */
bool descriptor_is_left(void);
