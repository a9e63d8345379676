/* SPDX-License-Identifier: MIT */
/*
 * Events name an entry by its number, so an event of an entry that has been removed
 * meanwhile finds nothing.
 */
#include "memops/reaper.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <uthash.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/def.h"

#define N_EVENTS 64
/*
 * The kernel may drop the event of a cgroup that is removed within 10 ms of another
 * event, so cgroups are looked at without one, too.
 */
#define LOOK_MS 1000

struct departure {
	uint64_t id;
	struct awaited awaited;
	int64_t over_ms;	       /* CLOCK_MONOTONIC; 0: no limit */
	struct departure *prev, *next; /* in reaper->timed */
	UT_hash_handle hh;
};

void reaper_init(struct reaper *reaper)
{
	*reaper = (struct reaper){ .lock = PTHREAD_MUTEX_INITIALIZER,
				   .epoll = -1,
				   .wake = -1 };
}

static bool departure_is_timed(const struct departure *departure)
{
	return departure->awaited.is_over || departure->over_ms;
}

/* Called with the lock. */
static void departure_unlink(struct reaper *reaper, struct departure *departure)
{
	(void)epoll_ctl(reaper->epoll, EPOLL_CTL_DEL, departure->awaited.fd, NULL);
	HASH_DEL(reaper->by_id, departure);
	if (departure_is_timed(departure))
		DL_DELETE(reaper->timed, departure);
}

/* With the lock held, released meanwhile. */
static void departure_finish(struct reaper *reaper, struct departure *departure)
{
	departure_unlink(reaper, departure);
	pthread_mutex_unlock(&reaper->lock);
	departure->awaited.done(departure->awaited.userdata);
	free(departure);
	pthread_mutex_lock(&reaper->lock);
}

static struct departure *departure_find(const struct reaper *reaper, uint64_t id)
{
	struct departure *departure;

	HASH_FIND(hh, reaper->by_id, &id, sizeof(id), departure);
	return departure;
}

/* An entry of `timed` whose wait is over; NULL: none. Called with the lock. */
static struct departure *reaper_find_over(const struct reaper *reaper)
{
	int64_t now = clock_ms();
	struct departure *departure;

	DL_FOREACH (reaper->timed, departure) {
		const struct awaited *awaited = &departure->awaited;

		if (departure->over_ms && departure->over_ms <= now)
			return departure;
		if (awaited->is_over && awaited->is_over(awaited->fd))
			return departure;
	}
	return NULL;
}

/* Called with the lock. */
static int reaper_wait_ms(const struct reaper *reaper)
{
	const struct departure *departure;
	int64_t now = clock_ms(), wait_ms = -1;

	DL_FOREACH (reaper->timed, departure) {
		int64_t left =
			departure->over_ms ? MAX(departure->over_ms - now, 0) : LOOK_MS;

		wait_ms = wait_ms < 0 ? left : MIN(wait_ms, left);
	}
	return (int)wait_ms;
}

/* With the lock held, released meanwhile. */
static void reaper_take_event(struct reaper *reaper, uint64_t id)
{
	struct departure *departure = id ? departure_find(reaper, id) : NULL;
	uint64_t count;

	if (!id && read(reaper->wake, &count, sizeof(count)) < 0)
		return;
	if (departure && (!departure->awaited.is_over ||
			  departure->awaited.is_over(departure->awaited.fd)))
		departure_finish(reaper, departure);
}

static void *reaper_main(void *userdata)
{
	struct reaper *reaper = userdata;
	struct epoll_event events[N_EVENTS];
	struct departure *departure;
	int n, wait_ms;

	pthread_mutex_lock(&reaper->lock);
	while (!reaper->ending) {
		wait_ms = reaper_wait_ms(reaper);
		pthread_mutex_unlock(&reaper->lock);
		n = epoll_wait(reaper->epoll, events, N_EVENTS, wait_ms);
		pthread_mutex_lock(&reaper->lock);
		for (int i = 0; i < n; i++)
			reaper_take_event(reaper, events[i].data.u64);
		while ((departure = reaper_find_over(reaper)))
			departure_finish(reaper, departure);
	}
	while (reaper->by_id)
		departure_finish(reaper, reaper->by_id);
	pthread_mutex_unlock(&reaper->lock);
	return NULL;
}

static bool reaper_listen(struct reaper *reaper, int fd, uint32_t events, uint64_t id)
{
	struct epoll_event event = { .events = events, .data.u64 = id };

	return epoll_ctl(reaper->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Starts the thread on first use. Called with the lock. */
static bool reaper_start(struct reaper *reaper)
{
	if (reaper->wake >= 0)
		return true;
	reaper->epoll = epoll_create1(EPOLL_CLOEXEC);
	reaper->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (reaper->epoll >= 0 && reaper->wake >= 0 &&
	    reaper_listen(reaper, reaper->wake, EPOLLIN, 0) &&
	    pthread_create(&reaper->thread, NULL, reaper_main, reaper) == 0)
		return true;
	closep(&reaper->epoll);
	closep(&reaper->wake);
	return false;
}

static void reaper_poke(struct reaper *reaper)
{
	uint64_t one = 1;
	ssize_t written = write(reaper->wake, &one, sizeof(one));

	(void)written;
}

uint64_t reaper_add(struct reaper *reaper, const struct awaited *awaited)
{
	struct departure *departure = calloc(1, sizeof(*departure));
	uint64_t id = 0;

	if (!departure)
		return 0;
	departure->awaited = *awaited;
	departure->over_ms = awaited->timeout_ms ? clock_ms() + awaited->timeout_ms : 0;
	pthread_mutex_lock(&reaper->lock);
	if (!reaper->ending && reaper_start(reaper) &&
	    reaper_listen(reaper, awaited->fd, awaited->events, reaper->n_ever + 1)) {
		id = departure->id = ++reaper->n_ever;
		HASH_ADD(hh, reaper->by_id, id, sizeof(departure->id), departure);
		if (departure_is_timed(departure)) {
			DL_APPEND(reaper->timed, departure);
			reaper_poke(reaper);
		}
	}
	pthread_mutex_unlock(&reaper->lock);
	if (!id)
		free(departure);
	return id;
}

bool reaper_remove(struct reaper *reaper, uint64_t id)
{
	struct departure *departure;

	pthread_mutex_lock(&reaper->lock);
	departure = departure_find(reaper, id);
	if (departure)
		departure_unlink(reaper, departure);
	pthread_mutex_unlock(&reaper->lock);
	free(departure);
	return departure;
}

bool reaper_has(struct reaper *reaper, uint64_t id)
{
	bool has;

	pthread_mutex_lock(&reaper->lock);
	has = departure_find(reaper, id);
	pthread_mutex_unlock(&reaper->lock);
	return has;
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
	closep(&reaper->epoll);
	closep(&reaper->wake);
	pthread_mutex_destroy(&reaper->lock);
}
