/* SPDX-License-Identifier: MIT */
#include "memops/lifetime_target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/refusal.h"
#include "base/text.h"
#include "memops/lifetime.h"

struct lifetime_target {
	char *key; /* USER NAME */
	unsigned int n_uids;
	UT_hash_handle hh;
};

/* Adds the target to the table if the target is not there. Returns: 0; -ENOMEM. */
static int target_get(struct lifetimes *lifetimes, uint64_t user, const char *name,
		      struct lifetime_target **ret)
{
	_cleanup_text_ struct text key = TEXT_INIT;
	struct lifetime_target *target;

	text_printf(&key, "%" PRIu64 " %s", user, name);
	if (text_failed(&key))
		return -ENOMEM;
	HASH_FIND_STR(lifetimes->targets, key.data, target);
	if (!target) {
		target = calloc(1, sizeof(*target));
		if (!target)
			return -ENOMEM;
		target->key = take_ptr(key.data);
		HASH_ADD_KEYPTR(hh, lifetimes->targets, target->key, strlen(target->key),
				target);
	}
	*ret = target;
	return 0;
}

int lifetime_target_restore(struct lifetimes *lifetimes, uint64_t user, const char *name,
			    struct lifetime_target **ret)
{
	int r = target_get(lifetimes, user, name, ret);

	if (r == 0)
		(*ret)->n_uids++;
	return r;
}

int lifetime_target_get(struct lifetimes *lifetimes, uint64_t user, const char *name,
			struct lifetime_target **ret, struct refusal *refusal)
{
	struct lifetime_target *target;

	if (target_get(lifetimes, user, name, &target) < 0)
		return refuse(refusal, ENOMEM, "no memory in the broker");
	if (target->n_uids >= LIFETIME_TARGET_UIDS)
		return refuse(refusal, EMFILE,
			      "%d uids of this range have memory that ends with %s %s, "
			      "the most there may be",
			      LIFETIME_TARGET_UIDS, name[0] == '/' ? "cgroup" : "process",
			      name);
	target->n_uids++;
	*ret = target;
	return 0;
}

void lifetime_target_put(struct lifetimes *lifetimes, struct lifetime_target *target)
{
	if (!target || --target->n_uids)
		return;
	HASH_DEL(lifetimes->targets, target);
	free(target->key);
	free(target);
}
