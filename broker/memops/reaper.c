/* SPDX-License-Identifier: MIT */
/*
 * Waits for the exit of processes that held leases.
 *
 * A lease ends when its descriptor closes. For a killed process this is before the driver
 * has removed the process's mappings (some 100 ms on hardware). Memory released in
 * between would count as free too early. So the memory is released after the exit.
 */
#include "memops/lease.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/def.h"

#define REAP_MS	 10000
#define N_POLLED 256 /* processes watched at a time; the others are watched later */

struct departure {
	int pidfd;
	int64_t deadline_ms;
	bool gone;
	void (*done)(void *userdata);
	void *userdata;
	struct departure *prev, *next;
};

void reaper_init(struct reaper *reaper)
{
	*reaper = (struct reaper){ .lock = PTHREAD_MUTEX_INITIALIZER, .wake = -1 };
}

static void departure_finish(struct departure *departure)
{
	departure->done(departure->userdata);
	free(departure);
}

/*
 * Removes entries whose process has exited or whose time is over. Called with the lock.
 */
static struct departure *reaper_take(struct reaper *reaper, int64_t *ret_wait_ms)
{
	struct departure *departure, *safe, *taken = NULL;
	int64_t now = clock_ms();

	*ret_wait_ms = -1;
	DL_FOREACH_SAFE (reaper->departures, departure, safe) {
		int64_t left = departure->deadline_ms - now;

		if (departure->gone || left <= 0 || reaper->ending) {
			DL_DELETE(reaper->departures, departure);
			DL_APPEND(taken, departure);
		} else if (*ret_wait_ms < 0 || left < *ret_wait_ms) {
			*ret_wait_ms = left;
		}
	}
	return taken;
}

/* Called without the lock; only this thread removes entries. */
static void reaper_wait(struct reaper *reaper, int64_t wait_ms)
{
	struct pollfd fds[1 + N_POLLED] = { { .fd = reaper->wake, .events = POLLIN } };
	struct departure *polled[N_POLLED], *departure;
	nfds_t n = 0;
	uint64_t count;

	pthread_mutex_lock(&reaper->lock);
	DL_FOREACH (reaper->departures, departure) {
		if (n == N_POLLED)
			break;
		polled[n] = departure;
		fds[++n] = (struct pollfd){ .fd = departure->pidfd, .events = POLLIN };
	}
	pthread_mutex_unlock(&reaper->lock);
	if (poll(fds, n + 1, (int)wait_ms) <= 0)
		return;
	if (fds[0].revents && read(reaper->wake, &count, sizeof(count)) < 0)
		return;
	for (nfds_t i = 0; i < n; i++)
		polled[i]->gone = fds[i + 1].revents;
}

static void *reaper_main(void *userdata)
{
	struct reaper *reaper = userdata;
	struct departure *departure, *safe, *taken;
	bool ending = false;
	int64_t wait_ms;

	while (!ending) {
		pthread_mutex_lock(&reaper->lock);
		taken = reaper_take(reaper, &wait_ms);
		ending = reaper->ending;
		pthread_mutex_unlock(&reaper->lock);
		DL_FOREACH_SAFE (taken, departure, safe) {
			DL_DELETE(taken, departure);
			departure_finish(departure);
		}
		if (!ending)
			reaper_wait(reaper, wait_ms);
	}
	return NULL;
}

/* Starts the thread on first use. Called with the lock. */
static bool reaper_start(struct reaper *reaper)
{
	if (reaper->wake >= 0)
		return true;
	reaper->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (reaper->wake >= 0 &&
	    pthread_create(&reaper->thread, NULL, reaper_main, reaper) == 0)
		return true;
	closep(&reaper->wake);
	return false;
}

static void reaper_poke(struct reaper *reaper)
{
	uint64_t one = 1;
	ssize_t written = write(reaper->wake, &one, sizeof(one));

	(void)written;
}

void reaper_add(struct reaper *reaper, int pidfd, void (*done)(void *userdata),
		void *userdata)
{
	struct departure *departure = calloc(1, sizeof(*departure));
	bool added = false;

	pthread_mutex_lock(&reaper->lock);
	if (departure && !reaper->ending && reaper_start(reaper)) {
		*departure = (struct departure){
			.pidfd = pidfd,
			.deadline_ms = clock_ms() + REAP_MS,
			.done = done,
			.userdata = userdata,
		};
		DL_APPEND(reaper->departures, departure);
		added = true;
		reaper_poke(reaper);
	}
	pthread_mutex_unlock(&reaper->lock);
	if (added)
		return;
	free(departure);
	done(userdata);
}

void reaper_end(struct reaper *reaper)
{
	pthread_mutex_lock(&reaper->lock);
	reaper->ending = true;
	if (reaper->wake >= 0)
		reaper_poke(reaper);
	pthread_mutex_unlock(&reaper->lock);
}

void reaper_deinit(struct reaper *reaper)
{
	reaper_end(reaper);
	if (reaper->wake >= 0)
		pthread_join(reaper->thread, NULL);
	closep(&reaper->wake);
	pthread_mutex_destroy(&reaper->lock);
}
