/* SPDX-License-Identifier: MIT */
/*
 * Threads for what a user may make last at will: searches (process/outside.h), and opens
 * and closes of files that users may have put locks on (fcntl(2)), since a close looks at
 * all locks, of which there may be millions. A user has one thread, so the user's tasks
 * wait for each other. All uids of a range of subordinate uids are one user.
 */
#pragma once

#include <sys/types.h>

struct broker;
struct task;

#define USER_LANES 16 /* threads */

/* Runs the task in the user's lane. The caller may hold registry.lock, and no other. */
void user_lane_add(const struct broker *broker, uid_t uid, struct task *task);
