/* SPDX-License-Identifier: MIT */
/*
 * Memory being given back to the driver. A free is answered at once, and the memory
 * returns after its last use. An allocation that finds the device full waits here until
 * memory has arrived. So `free` followed by `alloc` of the same size always works.
 *
 * A kernel or a lease may hold freed memory for as long as a user likes. Only requests of
 * the same user wait for such a piece.
 *
 * All under the registry's lock, except n_kept.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/device.h"

struct text;

/*
 * Embedded in the waiting request. Each function is called once, at the end of the wait.
 */
struct reclaim_waiter {
	uint32_t device;
	uid_t uid; /* whose request */
	void (*taken)(struct reclaim_waiter *waiter); /* under the registry's lock */
	void (*retry)(
		struct reclaim_waiter *waiter); /* after taken(), with no lock held */
	struct reclaim_waiter *next;
};

/* Freed memory that users hold. */
struct held_piece {
	uint32_t device;
	uint64_t size;
	uint64_t holder;
	struct held_piece *prev, *next; /* prev is NULL while the piece is not listed */
};

struct reclaim {
	unsigned int n_coming[DEVICES_MAX]; /* pieces being given back */
	uint64_t n_arrived[DEVICES_MAX];    /* pieces given back so far */
	struct reclaim_waiter *waiters;
	struct held_piece *held;
	unsigned int n_kept; /* blocks kept for lack of memory; atomic */
};

/* A piece of device memory is being given back; a piece has arrived. */
void reclaim_begin(struct reclaim *reclaim, uint32_t device);
void reclaim_end(struct reclaim *reclaim, uint32_t device);

/* The release of a piece is postponed: nobody waits for this piece any more. */
void reclaim_postpone(struct reclaim *reclaim, uint32_t device);

/* The piece is held from now on; not any more, if it was. */
void reclaim_hold(struct reclaim *reclaim, struct held_piece *piece);
void reclaim_unhold(struct reclaim *reclaim, struct held_piece *piece);

/* Appends `; N bytes of freed memory are still in use by uid 7`; nothing if none are. */
void text_add_held(struct text *text, const struct reclaim *reclaim, uint32_t device);

/* Whether memory is being given back for which a request of this user waits. */
bool reclaim_is_coming(const struct reclaim *reclaim, uint32_t device, uid_t uid);

/* Waits if memory is being given back. Returns: whether the caller has to wait. */
bool reclaim_wait(struct reclaim *reclaim, struct reclaim_waiter *waiter);

/* Ends a wait without a call. */
void reclaim_forget(struct reclaim *reclaim, struct reclaim_waiter *waiter);

/* Lets all waiters of the device try again. After reclaim_end(), with no lock held. */
void reclaim_retry(struct reclaim *reclaim, pthread_mutex_t *lock, uint32_t device);
