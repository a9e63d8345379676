/* SPDX-License-Identifier: MIT */
/*
 * Origins: the cgroups whose processes asked for an owner's allocations. Each owner has
 * and pays for origins of their own: an owner without memory is dropped, whoever else has
 * memory from the same cgroup. An origin is there as long as an allocation of it is in
 * the tree.
 *
 * All under the registry's lock.
 */
#pragma once

#include <uthash.h>

struct allocation;
struct owner;

struct origin {
	char *cgroup; /* as in /proc/PID/cgroup */
	struct owner *owner;
	struct allocation *allocations; /* being made, too */
	UT_hash_handle hh;		/* in owner->origins */
};

/*
 * Notes that the allocation came from the cgroup. The owner is charged where this is
 * their first from there. Returns: 0; -ENOMEM; -EDQUOT when the owner's share is used up.
 */
int origin_add(struct owner *owner, const char *cgroup, struct allocation *allocation);

/* The same for an allocation that gets another owner. */
int origin_move(struct allocation *allocation, struct owner *to);

void origin_leave(struct allocation *allocation);
