/* SPDX-License-Identifier: MIT */
/* How the view waits for an answer, and how a signal ends that. */
#pragma once

#include "base/def.h"

/* What a struct wait points to: how its wait is ended by a signal. */
struct waiter {
	/* With registry.lock held, which it lets go of; answers, or does nothing. */
	void (*interrupt)(struct waiter *waiter);
};

/*
 * An answer to come. Embedded in what waits; done is called exactly once: error is 0 or a
 * negative errno. For reads, bytes and length are the data, valid until done returns; for
 * writes and copies length is what was done. After done the wait is its owner's again.
 */
struct wait {
	void (*done)(struct wait *wait, int error, const void *bytes, size_t length);

	/* private to the broker */
	struct waiter *waiter;
};
