/* SPDX-License-Identifier: MIT */
/*
 * The counters of the BPF programs, summed over the CPUs.
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

/* Turns `now` into the difference to an earlier reading. */
void totals_subtract(struct totals *now, const struct totals *before);
