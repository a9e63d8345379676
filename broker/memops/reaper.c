/* SPDX-License-Identifier: MIT */
/*
 * Events name an entry by its number, so an event of an entry that has been removed
 * meanwhile finds nothing.
 */
#include "memops/reaper.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/def.h"
#include "base/hash.h"

#define N_EVENTS 64
/*
 * The kernel may drop the event of a cgroup that is removed within 10 ms of another
 * event, so cgroups are looked at without one, too: each once in LOOK_MS. A user may have
 * thousands of cgroups, and others wait for the lock under registry.lock. So the thread
 * lets the lock go for PAUSE_MS after N_LOOKS looks.
 */
#define LOOK_MS	 1000
#define PAUSE_MS 1
#define N_LOOKS	 32

struct departure {
	uint64_t id;
	struct awaited awaited;
	int64_t due_ms; /* the next look, or the end of the wait; CLOCK_MONOTONIC */
	struct departure *prev, *next; /* in reaper->looked_at or reaper->limited */
	UT_hash_handle hh;
};

void reaper_init(struct reaper *reaper)
{
	*reaper = (struct reaper){ .lock = PTHREAD_MUTEX_INITIALIZER,
				   .epoll = -1,
				   .wake = -1 };
}

/* The list of the departure, if any; the lists are in the order of due_ms. */
static struct departure **departure_list(struct reaper *reaper,
					 const struct departure *departure)
{
	if (departure->awaited.is_over)
		return &reaper->looked_at;
	return departure->awaited.timeout_ms ? &reaper->limited : NULL;
}

/* Puts the departure into its list, to be due after some time. Called with the lock. */
static void departure_defer(struct departure **list, struct departure *departure,
			    int64_t ms)
{
	struct departure *before = *list ? (*list)->prev : NULL;

	departure->due_ms = clock_ms() + ms;
	while (before && before->due_ms > departure->due_ms)
		before = before == *list ? NULL : before->prev;
	DL_APPEND_ELEM(*list, before, departure);
}

/* Called with the lock. */
static void departure_unlink(struct reaper *reaper, struct departure *departure)
{
	struct departure **list = departure_list(reaper, departure);

	(void)epoll_ctl(reaper->epoll, EPOLL_CTL_DEL, departure->awaited.fd, NULL);
	HASH_DEL(reaper->by_id, departure);
	if (list)
		DL_DELETE(*list, departure);
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

/* With the lock held, released meanwhile. */
static void reaper_end_limited(struct reaper *reaper)
{
	int64_t now = clock_ms();

	while (reaper->limited && reaper->limited->due_ms <= now)
		departure_finish(reaper, reaper->limited);
}

/* With the lock held, released meanwhile. */
static void reaper_look(struct reaper *reaper)
{
	int64_t now = clock_ms();

	for (int i = 0; i < N_LOOKS; i++) {
		struct departure *departure = reaper->looked_at;

		if (!departure || departure->due_ms > now)
			return;
		if (departure->awaited.is_over(departure->awaited.fd)) {
			departure_finish(reaper, departure);
		} else {
			DL_DELETE(reaper->looked_at, departure);
			departure_defer(&reaper->looked_at, departure, LOOK_MS);
		}
	}
}

/* Called with the lock. Returns: the time to wait for events; -1: for ever. */
static int reaper_wait_ms(const struct reaper *reaper)
{
	int64_t now = clock_ms(), wait_ms = -1;

	if (reaper->looked_at)
		wait_ms = MAX(reaper->looked_at->due_ms - now, PAUSE_MS);
	if (reaper->limited) {
		int64_t left = MAX(reaper->limited->due_ms - now, 0);

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
	int n, wait_ms;

	pthread_mutex_lock(&reaper->lock);
	while (!reaper->ending) {
		wait_ms = reaper_wait_ms(reaper);
		pthread_mutex_unlock(&reaper->lock);
		n = epoll_wait(reaper->epoll, events, N_EVENTS, wait_ms);
		pthread_mutex_lock(&reaper->lock);
		for (int i = 0; i < n; i++)
			reaper_take_event(reaper, events[i].data.u64);
		reaper_end_limited(reaper);
		reaper_look(reaper);
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
	struct departure **list;
	uint64_t id = 0;

	assert(!awaited->is_over || !awaited->timeout_ms);
	if (!departure)
		return 0;
	departure->awaited = *awaited;
	list = departure_list(reaper, departure);
	pthread_mutex_lock(&reaper->lock);
	if (!reaper->ending && reaper_start(reaper) &&
	    reaper_listen(reaper, awaited->fd, awaited->events, reaper->n_ever + 1)) {
		id = departure->id = ++reaper->n_ever;
		HASH_ADD(hh, reaper->by_id, id, sizeof(departure->id), departure);
		if (list) {
			departure_defer(list, departure,
					awaited->is_over ? LOOK_MS : awaited->timeout_ms);
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
