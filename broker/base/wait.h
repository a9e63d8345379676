/* SPDX-License-Identifier: MIT */
/* The view's wait for an answer, and its end by a signal. */
#pragma once

#include "base/def.h"

/*
 * Embedded in an operation; a struct wait points to it while a signal can end the wait.
 */
struct waiter {
	/*
	 * Called with registry.lock held, and releases the lock. Answers, or does
	 * nothing.
	 */
	void (*interrupt)(struct waiter *waiter);
};

/*
 * An answer to come, embedded in the caller's struct. done is called exactly once; error
 * is 0 or a negative errno. For reads, bytes and length are the data, valid until done
 * returns. For writes and copies, length is the number of bytes done. After done the
 * struct belongs to its owner again.
 */
struct wait {
	void (*done)(struct wait *wait, int error, const void *bytes, size_t length);

	/* private to the broker */
	struct waiter *waiter;
};
