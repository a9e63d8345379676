/* SPDX-License-Identifier: MIT */
/*
 * Memory on its way back to the driver. A free answers at once and gives the memory back
 * behind its last use; an allocation that finds a device full waits here until some has
 * arrived, so that `free` and then `alloc` of the same size always works.
 *
 * All under the registry's lock, but for n_kept.
 */
#pragma once

#include "model/registry.h"

/* Embedded in what waits. Both functions are called once, at the end of the wait. */
struct reclaim_waiter {
	uint32_t device;
	void (*taken)(struct reclaim_waiter *waiter); /* under the registry's lock */
	void (*retry)(struct reclaim_waiter *waiter); /* then with no lock held */
	struct reclaim_waiter *next;
};

struct reclaim {
	unsigned int n_coming[DEVICES_MAX]; /* pieces on their way */
	uint64_t n_arrived[DEVICES_MAX];    /* ever */
	struct reclaim_waiter *waiters;
	unsigned int n_kept; /* blocks that the driver would not take back; atomic */
};

/* A piece of a device's memory is on its way back; or has arrived. */
void reclaim_begin(struct reclaim *reclaim, uint32_t device);
void reclaim_end(struct reclaim *reclaim, uint32_t device);

/* A piece that was on its way does not come for now: nobody waits for it any more. */
void reclaim_postpone(struct reclaim *reclaim, uint32_t device);

/* Waits, if anything is on its way. Returns: whether it waits. */
bool reclaim_wait(struct reclaim *reclaim, struct reclaim_waiter *waiter);

/* It waits no longer. */
void reclaim_forget(struct reclaim *reclaim, struct reclaim_waiter *waiter);

/* After reclaim_end(), with no lock held: all that wait for the device try again. */
void reclaim_retry(struct reclaim *reclaim, pthread_mutex_t *lock, uint32_t device);
