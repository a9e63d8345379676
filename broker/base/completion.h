/* SPDX-License-Identifier: MIT */
/*
 * An answer to come, for a request of the view or for a line of a control file. The
 * struct is embedded in the caller's struct. The operation that works for the caller
 * holds a pointer to it (completion_hold()). completion_take() clears this pointer once,
 * under registry.lock, and the operation then calls done with no lock held. An earlier
 * signal clears the pointer, too, and answers (completion_cancel()).
 */
#pragma once

#include <errno.h>

#include "base/def.h"

struct shared_text;

struct completion {
	/*
	 * Called exactly once; error is 0 or a negative errno. For reads, bytes and
	 * length are the data, valid until done returns. For writes and copies, length is
	 * the number of bytes done. For lines, bytes are the sentence of the error, or
	 * NULL. After done the struct belongs to its owner again.
	 */
	void (*done)(struct completion *completion, int error, const void *bytes,
		     size_t length);

	/* While done runs: the text whose bytes done gets, to be kept by reference;
	 * NULL: the bytes can only be copied. */
	struct shared_text *shared;

	/* Private to the broker; registry.lock. */
	struct completion **holder; /* the pointer of the operation; NULL: no signal can
				       end the wait, not yet or not any more */
	int (*cancelled)(struct completion **holder); /* see completion_hold() */
	struct completion *inner; /* gets the signals instead; NULL: none */
	bool interrupted;	  /* a signal came; atomic */
	bool began; /* a line has begun to run, and must not run again unasked */
};

/*
 * Makes *holder the pointer of the operation. cancelled is called when a signal has
 * cleared it, and returns the answer: 0 or -EINTR; NULL: -EINTR. Under registry.lock.
 */
static inline void completion_hold(struct completion *completion,
				   struct completion **holder,
				   int (*cancelled)(struct completion **holder))
{
	*holder = completion;
	completion->holder = holder;
	completion->cancelled = cancelled;
}

/* For cancelled: the operation goes on without its caller, who gets success. */
static inline int completion_let_go(struct completion **holder)
{
	(void)holder;
	return 0;
}

/* Takes the completion to answer it. NULL: cancelled. Under registry.lock. */
static inline struct completion *completion_take(struct completion **holder)
{
	struct completion *taken = take_ptr(*holder);

	if (taken)
		taken->holder = NULL;
	return taken;
}

/* No signal ends the wait any more: the operation answers. Under registry.lock. */
static inline void completion_seal(struct completion *completion)
{
	completion->holder = NULL;
}

/* Returns: the answer, and done is to be called without the lock; 1: too late. */
static inline int completion_cancel(struct completion *completion)
{
	struct completion **holder = take_ptr(completion->holder);

	if (!holder)
		return 1;
	*holder = NULL;
	return completion->cancelled ? completion->cancelled(holder) : -EINTR;
}
