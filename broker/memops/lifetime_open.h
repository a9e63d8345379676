/* SPDX-License-Identifier: MIT */
/* Finds the process or the cgroup that memory is to end with. */
#pragma once

#include "memops/lifetime.h"

/*
 * process: of the thread. No lock held. Returns: a descriptor to watch, owned by the
 * caller; -EAGAIN: the search for a cgroup needs may_wait; -errno with a sentence.
 * *ret_unfit: with an error, a descriptor to close (process/user_lanes.h); -1: none.
 */
int lifetime_open(struct broker *broker, const struct lifetime_of *of, pid_t process,
		  bool may_wait, int *ret_unfit, struct refusal *refusal);
