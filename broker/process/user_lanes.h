/* SPDX-License-Identifier: MIT */
/*
 * Threads for what a user may make last at will: opens and closes of files that users may
 * have put locks on (fcntl(2)), since a close looks at all locks, of which there may be
 * millions. A user has one thread, so the user's tasks wait for each other. All uids of a
 * range of subordinate uids are one user.
 *
 * A search for a cgroup (process/outside.h) takes as long as its limit, and no processor.
 * Searches have threads of their own.
 *
 * Anybody may put locks on a process of another (pidfd), or on the events of a cgroup.
 * Closes of these have threads of their own, and no line of a user waits for such a
 * close.
 */
#pragma once

#include <sys/types.h>

#include "keep/keep.h"

struct broker;
struct task;

#define USER_LANES    16 /* threads */
#define USER_SEARCHES 16
#define USER_CLOSERS  4

/* Runs the task in the user's lane. The caller may hold registry.lock, and no other. */
void user_lane_add(const struct broker *broker, uid_t uid, struct task *task);

/* The same for a search. */
void user_search_add(const struct broker *broker, uid_t uid, struct task *task);

/* The same for the close of a process or of the events of a cgroup. */
void user_close_add(const struct broker *broker, uid_t uid, struct task *task);

/*
 * Closes the descriptor, and before it the keeper's copy (kept_end()), by
 * user_close_add(). Counts as busy. Under registry.lock.
 */
void user_close(struct broker *broker, uid_t uid, int fd, struct keep_key kept);
