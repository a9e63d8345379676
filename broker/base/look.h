/* SPDX-License-Identifier: MIT */
/*
 * Looking: a thread that expects something soon looks for it for a while before it
 * sleeps, because to wake a thread on a processor that sleeps takes longer than most
 * answers. Only where there are processors to spare, and not after LOOK_VAIN looks in
 * vain: then for LOOK_PAUSE_NS nobody looks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifndef LOOK_CPUS   /* -Dc_args=-DLOOK_CPUS=1: a build that looks on any machine */
#define LOOK_CPUS 4 /* with fewer nobody looks */
#endif
#define LOOK_VAIN     4
#define LOOK_PAUSE_NS 10000000

/* Past looks, of one thread at a time. */
struct look {
	unsigned int n_vain; /* in a row */
	uint64_t again_ns;   /* CLOCK_MONOTONIC */
};

/* Whether this process may use n processors. They are counted once. */
bool look_has_cpus(int n);

/* Whether the processors are enough for any look. */
bool look_is_possible(void);

/* Whether the past looks allow another one now. */
bool look_is_due(const struct look *look);

/* Whether a look is worth while now: possible and due. */
bool look_is_worthwhile(const struct look *look);

/* Notes how a look has ended. */
void look_note(struct look *look, bool in_vain);

/* Looks until `found`, for ns at most, and notes how the look has ended. */
void look_for(struct look *look, uint64_t ns, bool (*found)(void *userdata),
	      void *userdata);

/* Between two looks at the same thing. */
static inline void look_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}
