/* SPDX-License-Identifier: MIT */
#include "memops/lifetime_target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/def.h"
#include "base/hash.h"
#include "base/refusal.h"
#include "memops/lifetime.h"

struct lifetime_target {
	char *name;
	unsigned int n_users;
	UT_hash_handle hh;
};

static struct lifetime_target *target_find(const struct lifetimes *lifetimes,
					   const char *name)
{
	struct lifetime_target *target;

	HASH_FIND_STR(lifetimes->targets, name, target);
	return target;
}

int lifetime_target_restore(struct lifetimes *lifetimes, const char *name,
			    struct lifetime_target **ret)
{
	struct lifetime_target *target = target_find(lifetimes, name);

	if (!target) {
		target = calloc(1, sizeof(*target));
		if (target)
			target->name = strdup(name);
		if (!target || !target->name) {
			free(target);
			return -ENOMEM;
		}
		HASH_ADD_KEYPTR(hh, lifetimes->targets, target->name,
				strlen(target->name), target);
	}
	target->n_users++;
	*ret = target;
	return 0;
}

int lifetime_target_get(struct lifetimes *lifetimes, const char *name,
			struct lifetime_target **ret, struct refusal *refusal)
{
	const struct lifetime_target *target = target_find(lifetimes, name);

	if (target && target->n_users >= LIFETIME_TARGET_USERS)
		return refuse(refusal, EMFILE,
			      "%d users have memory that ends with %s %s, the most there "
			      "may be",
			      LIFETIME_TARGET_USERS,
			      name[0] == '/' ? "cgroup" : "process", name);
	if (lifetime_target_restore(lifetimes, name, ret) < 0)
		return refuse(refusal, ENOMEM, "no memory in the broker");
	return 0;
}

void lifetime_target_put(struct lifetimes *lifetimes, struct lifetime_target *target)
{
	if (!target || --target->n_users)
		return;
	HASH_DEL(lifetimes->targets, target);
	free(target->name);
	free(target);
}
