/* SPDX-License-Identifier: MIT */
/*
 * Memory being given back to the driver. A free is answered at once, and the memory
 * returns after its last use. An allocation that finds the device full waits here until
 * memory has arrived. So `free` followed by `alloc` of the same size always works.
 *
 * All under the registry's lock, except n_kept.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "model/device.h"

/*
 * Embedded in the waiting request. Each function is called once, at the end of the wait.
 */
struct reclaim_waiter {
	uint32_t device;
	void (*taken)(struct reclaim_waiter *waiter); /* under the registry's lock */
	void (*retry)(
		struct reclaim_waiter *waiter); /* after taken(), with no lock held */
	struct reclaim_waiter *next;
};

struct reclaim {
	unsigned int n_coming[DEVICES_MAX]; /* pieces being given back */
	uint64_t n_arrived[DEVICES_MAX];    /* pieces given back so far */
	struct reclaim_waiter *waiters;
	unsigned int n_kept; /* blocks kept for lack of memory; atomic */
};

/* A piece of device memory is being given back; a piece has arrived. */
void reclaim_begin(struct reclaim *reclaim, uint32_t device);
void reclaim_end(struct reclaim *reclaim, uint32_t device);

/* The release of a piece is postponed: nobody waits for this piece any more. */
void reclaim_postpone(struct reclaim *reclaim, uint32_t device);

/* Waits if memory is being given back. Returns: whether the caller has to wait. */
bool reclaim_wait(struct reclaim *reclaim, struct reclaim_waiter *waiter);

/* Ends a wait without a call. */
void reclaim_forget(struct reclaim *reclaim, struct reclaim_waiter *waiter);

/* Lets all waiters of the device try again. After reclaim_end(), with no lock held. */
void reclaim_retry(struct reclaim *reclaim, pthread_mutex_t *lock, uint32_t device);
