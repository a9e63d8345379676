/* SPDX-License-Identifier: MIT */
#include "model/origin.h"

#include <errno.h>
#include <string.h>

#include <utlist.h>

#include "base/def.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"

static int origin_new(struct registry *registry, struct owner *user, const char *cgroup,
		      struct origin **ret_origin)
{
	struct origin *origin;
	int r = share_take(user, SHARE_CGROUPS, 1);

	if (r < 0)
		return r;
	origin = calloc(1, sizeof(*origin));
	if (!origin || !(origin->cgroup = strdup(cgroup))) {
		free(origin);
		share_give(user, SHARE_CGROUPS, 1);
		return -ENOMEM;
	}
	origin->payer = user;
	HASH_ADD_KEYPTR(hh, registry->origins, origin->cgroup, strlen(origin->cgroup),
			origin);
	*ret_origin = origin;
	return 0;
}

int origin_add(struct registry *registry, struct owner *user, const char *cgroup,
	       struct allocation *allocation)
{
	struct origin *origin;
	int r;

	HASH_FIND_STR(registry->origins, cgroup, origin);
	if (!origin) {
		r = origin_new(registry, user, cgroup, &origin);
		if (r < 0)
			return r;
	}
	allocation->origin = origin;
	DL_APPEND2(origin->allocations, allocation, origin_prev, origin_next);
	return 0;
}

void origin_leave(struct registry *registry, struct allocation *allocation)
{
	struct origin *origin = take_ptr(allocation->origin);

	if (!origin)
		return;
	DL_DELETE2(origin->allocations, allocation, origin_prev, origin_next);
	if (origin->allocations)
		return;
	HASH_DEL(registry->origins, origin);
	share_give(origin->payer, SHARE_CGROUPS, 1);
	free(origin->cgroup);
	free(origin);
}
