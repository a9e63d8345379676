/* SPDX-License-Identifier: MIT */
/*
 * A process or cgroup with which memory of a user ends. Each uid has a descriptor of it,
 * and the close of one takes as long as anybody likes (process/user_lanes.h). So do the
 * end of a broker with many and the start of the next one: of the uids of a range
 * (base/subordinates.h) only a few may share one process or cgroup. All under
 * registry.lock.
 */
#pragma once

#include <stdint.h>

struct lifetime_target;
struct lifetimes;
struct refusal;

#define LIFETIME_TARGET_UIDS 8

/*
 * user: subordinates_user(); name: the pid, or the path. Returns: 0; -EMFILE where so
 * many uids of the user have it already, and -ENOMEM, with a sentence.
 */
int lifetime_target_get(struct lifetimes *lifetimes, uint64_t user, const char *name,
			struct lifetime_target **ret, struct refusal *refusal);

/* The same for uids of before, of which there may be more. Returns: 0; -ENOMEM. */
int lifetime_target_restore(struct lifetimes *lifetimes, uint64_t user, const char *name,
			    struct lifetime_target **ret);

/* Takes NULL. */
void lifetime_target_put(struct lifetimes *lifetimes, struct lifetime_target *target);
