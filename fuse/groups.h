/* SPDX-License-Identifier: MIT */
/*
 * The supplementary groups of callers. Linux shows groups only in the text of
 * /proc/TID/status. Making that text takes 20 ms for 60,000 groups, and a user with a
 * user namespace may have so many. So an open, which may need the groups, goes to a
 * thread of its own (slow_lane.h) if its sender has many groups, or was never seen
 * before. Where the broker has no procfs of its own (base/proc.h), users can make a look
 * long in another way, too: by a million locks (fcntl(2)) on their /proc/TID/status. They
 * count as users with many groups.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

struct subordinates;

#define GROUPS_SETS   4096
#define GROUPS_PLACES 4

struct groups_set {
	uint64_t users[GROUPS_PLACES]; /* number + 1, and whether there were many; atomic
					*/
	uint32_t n_replaced;	       /* atomic */
};

/*
 * A cache of users. A user's set is drawn by a keyed hash, so nobody can choose whom to
 * replace. A user who had many groups once stays one with many: another process of the
 * user may have few.
 */
struct groups_seen {
	struct subordinates *subordinates; /* uids of a range are one user; borrowed */
	struct groups_set sets[GROUPS_SETS];
};

/*
 * Reads the groups of a thread, ascending. Returns: their number, with *ret_groups for
 * the caller to free; 0 for a thread that has ended, so it never gets more rights;
 * -ENOMEM.
 */
int groups_read(pid_t tid, gid_t **ret_groups);

void groups_note(struct groups_seen *seen, uid_t uid, unsigned int n);

/* Reads the groups of a user's thread, and notes whether they are many. */
int groups_of(struct groups_seen *seen, pid_t tid, uid_t uid, gid_t **ret_groups);

/* Notes a user whose thread has this text of /proc/TID/status, if it names many groups.
 */
void groups_note_status(struct groups_seen *seen, uid_t uid, const char *status);

/* Whether the user is known to have many groups. */
bool groups_are_many(const struct groups_seen *seen, uid_t uid);

/*
 * Whether the request may take long because of its sender's groups; *ret_user is then the
 * number of the user who has to take turns.
 */
bool groups_are_slow(const struct groups_seen *seen, const struct fuse_buf *request,
		     uint64_t *ret_user);

/* Looks at the groups of an unknown sender. */
void groups_learn(struct groups_seen *seen, const struct fuse_buf *request);
