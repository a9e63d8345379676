/* SPDX-License-Identifier: MIT */
#include "model/access.h"

#include <stdlib.h>

#include "model/allocation.h"
#include "model/owner.h"

bool caller_in_group(const struct caller *caller, gid_t gid)
{
	return caller->gid == gid ||
	       (caller->n_groups && bsearch(&gid, caller->groups, caller->n_groups,
					    sizeof(gid), gid_compare));
}

bool caller_may(const struct caller *caller, const struct allocation *allocation,
		enum access access)
{
	unsigned int mode = allocation->mode;

	if (caller->uid == 0)
		return true;
	if (access == ACCESS_OWN)
		return caller->uid == allocation->owner->uid;
	if (caller->uid == allocation->owner->uid)
		mode >>= 6;
	else if (caller_in_group(caller, allocation->gid))
		mode >>= 3;
	return (mode & access) == (unsigned int)access;
}

bool owner_may(const struct owner *owner, const struct allocation *allocation,
	       enum access access)
{
	const struct caller caller = { .uid = owner->uid, .gid = owner->gid };
	const struct caller member = { .uid = owner->uid, .gid = allocation->gid };

	return caller_may(&caller, allocation, access) &&
	       caller_may(&member, allocation, access);
}
