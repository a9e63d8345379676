/* SPDX-License-Identifier: MIT */
/* Threads of the library, which run to the end of the process. */
#pragma once

#include <pthread.h>
#include <signal.h>

/*
 * Starts a thread that takes none of the program's signals. A child of fork() does not
 * have the thread. Returns: 0, or -errno.
 */
static inline int thread_start(void *(*body)(void *))
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attr, body, NULL);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}
