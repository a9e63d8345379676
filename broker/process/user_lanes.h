/* SPDX-License-Identifier: MIT */
/*
 * Threads for what a user may make last at will. A user has one thread of each kind, so
 * the user's tasks wait for each other. All uids of a range of subordinate uids are one
 * user.
 */
#pragma once

#include <sys/types.h>

#include "keep/keep.h"

struct broker;
struct task;
struct workqueue;

enum user_lane {
	/*
	 * Opens and closes of files that users may have put locks on (fcntl(2)): a close
	 * looks at all locks, of which there may be millions.
	 */
	LANE_FILES,
	/* Searches for a cgroup (process/outside.h), which take as long as their limit.
	 */
	LANE_SEARCHES,
	/*
	 * Closes of processes (pidfd) and of the events of cgroups. Anybody may put locks
	 * on those of another, so no line of a user waits for such a close.
	 */
	LANE_CLOSES,
	N_USER_LANES,
};

/* lanes: N_USER_LANES queues. Returns: 0; -EAGAIN. */
int user_lanes_init(struct workqueue *lanes);
/* Finishes all tasks, then ends the threads. */
void user_lanes_deinit(struct workqueue *lanes);

/* Runs the task in the user's lane. The caller may hold registry.lock, and no other. */
void user_lane_add(const struct broker *broker, enum user_lane lane, uid_t uid,
		   struct task *task);

/*
 * Closes the descriptor, and before it the keeper's copy (kept_end()), in LANE_CLOSES.
 * Counts as busy. Under registry.lock.
 */
void user_close(struct broker *broker, uid_t uid, int fd, struct keep_key kept);
