/* SPDX-License-Identifier: MIT */
/* Ranges of an allocation as users name them. */
#pragma once

#include "base/refusal.h"

struct allocation;

/* A range as a line gives it. */
struct range {
	uint64_t offset, length;
	bool has_length; /* else to the end */
};

/*
 * Sees that the range is inside the allocation; without a length it goes to the end.
 * Returns: 0; -EOVERFLOW, -ERANGE.
 */
int range_fit(struct range *range, const struct allocation *allocation,
	      struct refusal *refusal);
