/* SPDX-License-Identifier: MIT */
/*
 * Origins: the cgroups whose processes asked for allocations. An origin is there as long
 * as an allocation of it is in the tree.
 *
 * All under the registry's lock.
 */
#pragma once

#include <uthash.h>

struct allocation;
struct owner;
struct registry;

struct origin {
	char *cgroup; /* as in /proc/PID/cgroup */
	struct owner *payer;
	struct allocation *allocations; /* being made, too */
	UT_hash_handle hh;		/* in registry->origins */
};

/*
 * Notes that the allocation came from the cgroup. The user is charged where this is its
 * first. Returns: 0; -ENOMEM; -EDQUOT when the user's share is used up.
 */
int origin_add(struct registry *registry, struct owner *user, const char *cgroup,
	       struct allocation *allocation);

void origin_leave(struct registry *registry, struct allocation *allocation);
