/* SPDX-License-Identifier: MIT */
/*
 * Threads for what a user may make last at will: searches (process/outside.h), and opens
 * and closes of files that users may have put locks on (fcntl(2)), since a close looks at
 * all locks, of which there may be millions. Anybody may put locks on any process (pidfd),
 * on the events of a cgroup, and on memory of a lease. A user has one thread, so the user's tasks
 * wait for each other. All uids of a range of subordinate uids are one user.
 */
#pragma once

#include <sys/types.h>

#include "keep/keep.h"

struct broker;
struct owner;
struct task;

#define USER_LANES 16 /* threads */

/* Runs the task in the user's lane. The caller may hold registry.lock, and no other. */
void user_lane_add(const struct broker *broker, uid_t uid, struct task *task);

struct lane_close {
	int fd;
	struct keep_key kept; /* the keeper's copy (memory/kept.h), without a record */
	struct owner *payer;  /* of a descriptor, until both are closed; NULL: nobody */
};

/*
 * Closes the descriptor, and before it the keeper's copy, in the user's lane. Counts as
 * busy. Under registry.lock.
 */
void user_lane_close(struct broker *broker, uid_t uid, const struct lane_close *what);
