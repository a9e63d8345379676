/* SPDX-License-Identifier: MIT */
/*
 * What the BPF programs counted, summed over the CPUs.
 */
#pragma once

#include "output.h"

struct totals {
	struct call_stat calls[N_CALLS];
	struct failure {
		__u32 call;
		__s32 result;
		uint64_t n;
	} * failures;
	size_t n_failures;
};

/* Returns: 0; -errno. totals_deinit() is the caller's. */
int totals_read(const struct tracer *tracer, struct totals *ret_totals);
void totals_deinit(struct totals *totals);

/* What came between two readings; `now` becomes the difference. */
void totals_subtract(struct totals *now, const struct totals *before);

/* How often a call failed with that result. */
uint64_t totals_failures(const struct totals *totals, enum call_id call, int result);
