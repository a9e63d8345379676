/* SPDX-License-Identifier: MIT */
/* Faults on request: calls that fail, come late or kill. The grammar is in options.h. */
#pragma once

#include "cuda/driver.h"

/* The injected delay of a call. */
struct delay {
	uint64_t ns;
	uint64_t n_changes; /* inject_changes() when it was told */
};

/*
 * Adds a rule, fail=, delay= or kill=, for the life of the process.
 *
 * Returns: 0, or -EINVAL when the text is not a rule.
 */
int inject_add(const char *setting);

/*
 * Counts a call (a row of the X-list) and tells the result asked for. Doesn't come back
 * from a kill. The delay is added to *delay.
 */
CUresult inject_result(int call, struct delay *delay);

/* Checks the control file. Returns: the number of changes found so far. */
uint64_t inject_changes(void);
