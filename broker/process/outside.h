/* SPDX-License-Identifier: MIT */
/*
 * Opens and replaces files in folders that any user may keep locked. Who looks up or
 * makes a name in such a folder waits for the lock, and no signal ends the wait: the
 * broker could not even be ended. So a process of its own waits (worker/outside.h), and
 * the broker waits a bounded time for the process. A late process gets SIGKILL, and ends
 * with the wait for the lock.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

#define OUTSIDE_MS	   2000
#define OUTSIDE_REPLACE_MS 5000	 /* a disk may be slow */
#define OUTSIDE_LATE	   16	 /* a user has one late process, and all users so many */
#define OUTSIDE_PAUSE_MS   10000 /* from a late search to the user's next one, where */
#define OUTSIDE_MANY	   8	 /* so many were late in that time */
#define OUTSIDE_NOTED	   256	 /* late searches that are noted for that time */

struct spawner;

struct late {
	pid_t pid; /* 0: it has ended */
	uint64_t user;
	int64_t since_ms;
};

struct outside {
	struct spawner *spawner;
	pthread_mutex_t lock;
	struct late late[OUTSIDE_NOTED]; /* lock; the oldest first */
	unsigned int n_late;
};

/* The spawner lives longer. */
void outside_init(struct outside *outside, struct spawner *spawner);

/*
 * Opens a file for reading, for a line of that user (subordinates_user()); program: a
 * worker's. May take OUTSIDE_MS.
 *
 * Returns: a descriptor, owned by the caller; -ETIMEDOUT; -EBUSY while an earlier process
 * of the user is late, and OUTSIDE_PAUSE_MS after it was where those of OUTSIDE_MANY
 * were, or while too many are; -errno of the open, or of the process's start.
 */
int outside_open(struct outside *outside, const char *program, uint64_t user,
		 const char *path);

/*
 * Puts a new file with the bytes of a descriptor in the place of a file, and waits until
 * file and folder are on the disk. By one thread only. May take OUTSIDE_REPLACE_MS.
 *
 * Returns: 0; -ETIMEDOUT; -EBUSY while an earlier process is late; -errno. The file is
 * the old one then, or, if only fsync(2) of the folder failed, the new one.
 */
int outside_replace(struct outside *outside, const char *program, const char *path,
		    int text);
