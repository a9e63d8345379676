/* SPDX-License-Identifier: MIT */
/*
 * Files that the broker wakes: events_pipe, leases.
 *
 * The broker may wake a file in the midst of a change, so waking only puts the file on a
 * list. A thread of the view serves the files on the list; their openers take turns.
 * wakers.lock guards the list and is taken last.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/turns.h"

struct waker {
	struct wakers *wakers;
	uid_t opener;
	void (*serve)(struct waker *waker); /* from the thread, without a lock */

	/* wakers.lock */
	struct turn turn;
	bool woken;   /* on the list */
	bool closing; /* never put on the list again */
};

struct wakers {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct turns woken;   /* lock */
	struct waker *served; /* lock */
	bool ending;	      /* lock */
	pthread_t thread;
};

/* Returns: 0; -errno. */
int wakers_init(struct wakers *wakers);

/* Files may still leave afterwards. */
void wakers_deinit(struct wakers *wakers);

void waker_init(struct waker *waker, struct wakers *wakers, uid_t opener,
		void (*serve)(struct waker *waker));

/* Asks the thread to serve the file soon. From any thread; userdata is the waker. */
void waker_wake(void *userdata);

/* After the return the thread never touches the waker again. */
void waker_leave(struct waker *waker);
