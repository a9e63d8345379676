/* SPDX-License-Identifier: MIT */
/* Checks whether the mode of an allocation gives a caller access. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct allocation;
struct owner;

struct caller {
	uid_t uid;
	gid_t gid;
	pid_t pid;
	unsigned int n_groups;
	const gid_t
		*groups; /* supplementary, ascending; borrowed, must outlive the call */
};

/* The order of groups, for qsort(3) and bsearch(3). */
static inline int gid_compare(const void *a, const void *b)
{
	gid_t one = *(const gid_t *)a, other = *(const gid_t *)b;

	return (one > other) - (one < other);
}

/* Whether the group is one of the caller's. */
bool caller_in_group(const struct caller *caller, gid_t gid);

enum access {
	ACCESS_READ = 4,
	ACCESS_WRITE = 2,
	ACCESS_OWN = 1, /* free, rename, chmod: owner and root */
};

/* Whether the mode of the allocation permits the access. Root may do everything. */
bool caller_may(const struct caller *caller, const struct allocation *allocation,
		enum access access);

/*
 * Whether the mode permits the access to an owner, whose supplementary groups are not
 * known here: both to a member of the allocation's group and, unless that is the owner's
 * primary group, to others.
 */
bool owner_may(const struct owner *owner, const struct allocation *allocation,
	       enum access access);
