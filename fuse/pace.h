/* SPDX-License-Identifier: MIT */
/*
 * The kernel has one queue of requests for all users, and a large write costs a thread of
 * the view a hundred times as much as a small request. A write is answered at once, so
 * each of a user's threads would have its next MiB in the queue right away, and everybody
 * else's requests stand behind all of them.
 *
 * So the answers to a user's large writes are paced. An answer is out from when it is
 * sent until the same thread has its next large write read, or for PACE_NS. PACE_OUT
 * answers of a user may be out; the others are held, and their writers queue nothing. An
 * answer to a refused write is an answer, too.
 *
 * While the queue is not empty, the next write of a thread may stand in it unread. An
 * answer then stays out for PACE_BUSY_NS.
 *
 * What is held is the bytes of an answer, whose request libfuse has finished. They are
 * sent under the lock, so none is on its way when pace_stop() returns.
 */
#pragma once

#include "base/watchdog.h"

#include <linux/fuse.h>
#include <stdbool.h>
#include <sys/uio.h>

#define PACE_LARGE   65536
#define PACE_OUT     4
#define PACE_NS	     2000000
#define PACE_BUSY_NS 20000000

struct subordinates;

/* Sends an answer. Returns: as writev(2). */
typedef ssize_t pace_send(int fd, struct iovec *iov, int n);

struct pace {
	int fd; /* of the kernel's queue; borrowed */
	pace_send *send;
	struct subordinates *subordinates; /* uids of a range are one user; borrowed */
	struct watchdog watchdog;	   /* looks while an answer is held */
	unsigned int n_large;		   /* atomic: those in `large` */
	pthread_mutex_t lock;		   /* guards all below */
	struct large_write *large;	   /* by unique: the kernel has no answer */
	struct pace_user *users;	   /* by number */
	unsigned int n_held;
	bool stopped;
};

/* subordinates is borrowed. Returns: 0; -errno. */
int pace_init(struct pace *pace, int fd, pace_send *send,
	      struct subordinates *subordinates);

/* No answer is sent any more. */
void pace_deinit(struct pace *pace);

/* Looks at each request that is read and will have an answer of its handler. */
void pace_note(struct pace *pace, const struct fuse_in_header *request);

/* Sends any answer, or holds it. Returns: as writev(2). */
ssize_t pace_answer(struct pace *pace, int fd, struct iovec *iov, int n);

/* Sends all that are held, and holds none until it goes on. */
void pace_stop(struct pace *pace);
void pace_go_on(struct pace *pace);
