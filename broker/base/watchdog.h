/* SPDX-License-Identifier: MIT */
/*
 * A thread that looks after other threads, every WATCHDOG_MS as long as these are busy.
 * While they are idle no timer runs and the thread sleeps.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#define WATCHDOG_MS 2

struct watchdog {
	bool (*look)(void *userdata);
	void *userdata;
	int timer;
	pthread_t thread;
	int ticking; /* atomic: the timer runs */
	int ending;  /* atomic */
};

/*
 * look returns whether there was something to look after since the last look.
 * Returns: 0; -EMFILE, -EAGAIN, -ENOMEM.
 */
int watchdog_init(struct watchdog *watchdog, bool (*look)(void *userdata),
		  void *userdata);

/* look is not called any more afterwards. */
void watchdog_deinit(struct watchdog *watchdog);

/* There is something to look after from now on. Cheap when there was before. */
void watchdog_wake(struct watchdog *watchdog);
