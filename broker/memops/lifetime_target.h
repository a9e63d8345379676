/* SPDX-License-Identifier: MIT */
/*
 * A process or cgroup with which memory of users ends. Each user has a descriptor of it,
 * and the close of one takes as long as anybody likes (process/user_lanes.h). So do the
 * end of a broker with many and the start of the next one: only a few users may share one
 * process or cgroup. All under registry.lock.
 */
#pragma once

struct lifetime_target;
struct lifetimes;
struct refusal;

#define LIFETIME_TARGET_USERS 8

/*
 * name: the pid, or the path. Returns: 0; -EMFILE where so many users have it already,
 * and -ENOMEM, with a sentence.
 */
int lifetime_target_get(struct lifetimes *lifetimes, const char *name,
			struct lifetime_target **ret, struct refusal *refusal);

/* The same for users of before, of whom there may be more. Returns: 0; -ENOMEM. */
int lifetime_target_restore(struct lifetimes *lifetimes, const char *name,
			    struct lifetime_target **ret);

/* Takes NULL. */
void lifetime_target_put(struct lifetimes *lifetimes, struct lifetime_target *target);
