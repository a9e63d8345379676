/* SPDX-License-Identifier: MIT */
/*
 * The answer that a line of a control file waits for. The struct is embedded in the
 * caller's struct. The operation that works for the line keeps a pointer to it.
 * completion_take() takes this pointer once, under registry.lock, and the operation then
 * calls done with no lock held. An earlier signal calls cancel, which clears the pointer.
 */
#pragma once

#include "base/def.h"

struct completion {
	/*
	 * Under registry.lock: a signal ends the wait. Detaches the operation and returns
	 * the answer, 0 or -EINTR; 1: too late. NULL: not waiting.
	 */
	int (*cancel)(struct completion *completion);
	void *working; /* for cancel */
	bool began;    /* has begun to run; must not run again unasked */

	/* Answers. error is zero or positive; with an error there is a sentence. */
	void (*done)(struct completion *completion, int error, const char *sentence);
};

/* Takes the completion to answer it; a signal can't cancel it any more. */
static inline struct completion *completion_take(struct completion **completion)
{
	struct completion *taken = take_ptr(*completion);

	if (taken)
		taken->cancel = NULL;
	return taken;
}
