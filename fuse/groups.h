/* SPDX-License-Identifier: MIT */
/*
 * The supplementary groups of callers. Linux tells them only in the text of
 * /proc/TID/status, which takes 20 ms to make for 60,000 groups; a user with a user
 * namespace may have so many. So requests that may ask for the groups of such a user, or
 * of a user whose groups were never seen, go to a thread of their own (slow_lane.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#define GROUPS_USERS 4096

/* What is known of users; one that shares the place of another may be forgotten. */
struct groups_seen {
	uint64_t users[GROUPS_USERS]; /* uid + 1, and whether there were few; atomic */
};

/*
 * The groups of a thread. Returns: their number, and *ret_groups is the caller's to free;
 * 0 for a thread that has ended: never more rights than before; -ENOMEM.
 */
int groups_read(pid_t tid, gid_t **ret_groups);

void groups_note(struct groups_seen *seen, uid_t uid, unsigned int n);

/* Whether the request may take long because of its sender's groups. */
bool groups_are_slow(const struct groups_seen *seen, const struct fuse_buf *request);

/* Looks at the groups of a sender who was never seen. */
void groups_learn(struct groups_seen *seen, const struct fuse_buf *request);
