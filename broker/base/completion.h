/* SPDX-License-Identifier: MIT */
/*
 * Who waits for an answer, embedded in what waits: a line of a control file. Whoever
 * works for it keeps a pointer and takes that once, under registry.lock
 * (completion_take()); then it calls done, with no lock held. A signal that comes first
 * calls cancel, which takes the pointer away.
 */
#pragma once

#include "base/def.h"

struct completion {
	/*
	 * Under registry.lock: a signal ends the wait. Lets go of what works for it and
	 * returns what to answer, 0 or -EINTR; 1: it is too late. NULL: it isn't waiting.
	 */
	int (*cancel)(struct completion *completion);
	void *working; /* for cancel */
	bool began;    /* it began to run: it isn't run again unasked */

	/* Answers. error is positive, then sentence says why. */
	void (*done)(struct completion *completion, int error, const char *sentence);
};

/* Takes it to be answered: no signal takes it away any more. */
static inline struct completion *completion_take(struct completion **completion)
{
	struct completion *taken = take_ptr(*completion);

	if (taken)
		taken->cancel = NULL;
	return taken;
}
