/* SPDX-License-Identifier: MIT */
/*
 * Waits in a thread of its own for the end of processes (by pidfd) and cgroups (by
 * cgroup.events).
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct reaper {
	pthread_mutex_t lock;
	struct departure *by_id;     /* lock, like all here */
	struct departure *looked_at; /* of them, those with is_over */
	struct departure *limited;   /* of them, those with a timeout */
	uint64_t n_ever;
	int epoll, wake; /* -1: the thread was never needed */
	bool ending;
	pthread_t thread;
};

/* What to wait for. */
struct awaited {
	int fd;		 /* borrowed until done or reaper_remove() */
	uint32_t events; /* of epoll, that may mean the end */
	/*
	 * Whether it is the end; asked after each event of fd and every second, under
	 * the reaper's lock. NULL: each event is the end.
	 */
	bool (*is_over)(int fd);
	int64_t timeout_ms; /* the wait is over then, too; 0: no limit, as with is_over */
	void (*done)(void *userdata); /* called once, by the reaper's thread, no lock
					 held */
	void *userdata;
};

void reaper_init(struct reaper *reaper);
void reaper_deinit(struct reaper *reaper);

/*
 * Returns: a number for reaper_remove(); 0 when waiting is not possible (no memory, or
 * the end of the broker), and done is not called.
 */
uint64_t reaper_add(struct reaper *reaper, const struct awaited *awaited);

/* Returns: whether done was not called and won't be. */
bool reaper_remove(struct reaper *reaper, uint64_t id);

/* Whether done is still to be called. */
bool reaper_has(struct reaper *reaper, uint64_t id);

/* Calls done of all entries now. */
void reaper_end(struct reaper *reaper);
