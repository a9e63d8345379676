/* SPDX-License-Identifier: MIT */
/* Ranges of an allocation in lines of users. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct allocation;
struct refusal;

/* A range as written in a line. */
struct range {
	uint64_t offset, length;
	bool has_length; /* else up to the end */
};

/*
 * Checks that the range is inside the allocation. A range without length goes to the end.
 * Returns: 0; -EOVERFLOW; -ERANGE.
 */
int range_fit(struct range *range, const struct allocation *allocation,
	      struct refusal *refusal);
