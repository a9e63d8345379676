/* SPDX-License-Identifier: MIT */
#include "model/origin.h"

#include <errno.h>
#include <string.h>

#include <utlist.h>

#include "base/def.h"
#include "model/owner.h"
#include "model/shares.h"

static int origin_new(struct owner *owner, const char *cgroup, struct origin **ret_origin)
{
	struct origin *origin;
	int r = share_take(owner, SHARE_CGROUPS, 1);

	if (r < 0)
		return r;
	origin = calloc(1, sizeof(*origin));
	if (!origin || !(origin->cgroup = strdup(cgroup))) {
		free(origin);
		share_give(owner, SHARE_CGROUPS, 1);
		return -ENOMEM;
	}
	origin->owner = owner;
	HASH_ADD_KEYPTR(hh, owner->origins, origin->cgroup, strlen(origin->cgroup),
			origin);
	*ret_origin = origin;
	return 0;
}

static int origin_get(struct owner *owner, const char *cgroup, struct origin **ret_origin)
{
	struct origin *origin;

	HASH_FIND_STR(owner->origins, cgroup, origin);
	if (!origin)
		return origin_new(owner, cgroup, ret_origin);
	*ret_origin = origin;
	return 0;
}

static void origin_join(struct origin *origin, struct allocation *allocation)
{
	allocation->origin = origin;
	DL_APPEND2(origin->allocations, allocation, origin_prev, origin_next);
}

int origin_add(struct owner *owner, const char *cgroup, struct allocation *allocation)
{
	struct origin *origin;
	int r = origin_get(owner, cgroup, &origin);

	if (r == 0)
		origin_join(origin, allocation);
	return r;
}

int origin_move(struct allocation *allocation, struct owner *to)
{
	struct origin *origin;
	int r;

	if (!allocation->origin)
		return 0;
	r = origin_get(to, allocation->origin->cgroup, &origin);
	if (r < 0)
		return r;
	origin_leave(allocation);
	origin_join(origin, allocation);
	return 0;
}

void origin_leave(struct allocation *allocation)
{
	struct origin *origin = take_ptr(allocation->origin);

	if (!origin)
		return;
	DL_DELETE2(origin->allocations, allocation, origin_prev, origin_next);
	if (origin->allocations)
		return;
	HASH_DEL(origin->owner->origins, origin);
	share_give(origin->owner, SHARE_CGROUPS, 1);
	free(origin->cgroup);
	free(origin);
}
