/* SPDX-License-Identifier: MIT */
/*
 * Origins: the cgroups whose processes asked for an owner's allocations. Each owner has
 * and pays for origins of their own: an owner without memory is dropped, whoever else has
 * memory from the same cgroup. An origin is there as long as an allocation of it is in
 * the tree, or a walk goes along it. Each has a record, which the records of its
 * allocations name.
 *
 * All under the registry's lock.
 */
#pragma once

#include <stdint.h>

#include "base/hash.h"

struct allocation;
struct origin_record;
struct origin_walk;
struct owner;

struct origin {
	char *cgroup; /* as in /proc/PID/cgroup */
	struct owner *owner;
	struct allocation *allocations; /* being made, too */
	struct origin_walk *walks;
	uint32_t record;   /* 0: no records are kept */
	uint32_t text;	   /* of the record */
	UT_hash_handle hh; /* in owner->origins */
};

/*
 * Notes that the allocation came from the cgroup. The owner is charged where this is
 * their first from there. Returns: 0; -ENOMEM; -EDQUOT when the owner's share is used up.
 */
int origin_add(struct owner *owner, const char *cgroup, struct allocation *allocation);

/*
 * The same for an allocation that gets another owner. Saving that is the caller's, in one
 * group with this: no record names an origin that is gone, or another owner's.
 */
int origin_move(struct allocation *allocation, struct owner *to);

/* The caller saves the allocation, in one group with this. */
void origin_leave(struct allocation *allocation);

/*
 * Makes the origin of a record again, and has an allocation be from there.
 * Returns: 0; -EEXIST, -ENOMEM.
 */
int origin_restore(struct owner *owner, uint32_t index,
		   const struct origin_record *record, struct origin **ret_origin);
void origin_join(struct origin *origin, struct allocation *allocation);

/*
 * A walk along the allocations of an origin. Any of them may leave when the lock is let
 * go of meanwhile, and others come: new ones, and older ones from other owners. The
 * origin stays, and so does its owner.
 */
struct origin_walk {
	struct origin *origin;
	struct allocation *next; /* NULL: the end */
	struct origin_walk *og_next;
};

void origin_walk_begin(struct origin_walk *walk, struct origin *origin);

/* NULL: there are no more. */
struct allocation *origin_walk_next(struct origin_walk *walk);

/* Returns: the next origin of the owner; NULL: that was the last. */
struct origin *origin_walk_end(struct origin_walk *walk);

/* The record that an origin has. */
void origin_to_record(const struct origin *origin, struct origin_record *ret_record);
