/* SPDX-License-Identifier: MIT */
/*
 * Files that the broker wakes: events_pipe, leases.
 *
 * The broker may do so in the midst of a change, so waking only puts the file on a list;
 * a thread of the view's own serves it. wakers.lock guards the list, nothing else is
 * locked under it.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

struct waker {
	struct wakers *wakers;
	void (*serve)(struct waker *waker); /* from the thread, without a lock */

	/* wakers.lock */
	struct waker *next;
	bool woken;   /* it is on the list */
	bool closing; /* it will not be there again */
};

struct wakers {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct waker *woken;  /* lock */
	struct waker *served; /* lock */
	bool ending;	      /* lock */
	pthread_t thread;
};

/* Returns: 0; -errno. */
int wakers_init(struct wakers *wakers);

/* Files may still leave afterwards. */
void wakers_deinit(struct wakers *wakers);

void waker_init(struct waker *waker, struct wakers *wakers,
		void (*serve)(struct waker *waker));

/* Has it served soon. From any thread; userdata is the waker. */
void waker_wake(void *userdata);

/* On return the thread has nothing to do with it, now or later. */
void waker_leave(struct waker *waker);
