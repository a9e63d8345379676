/* SPDX-License-Identifier: MIT */
#include "model/owner.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"
#include "base/subordinates.h"
#include "base/user_names.h"
#include "model/meter.h"
#include "model/registry.h"
#include "model/save.h"

/* A range of subordinate uids, with owners among them. */
struct owner_range {
	uint64_t user;
	unsigned int n_owners;
	UT_hash_handle hh;
};

static struct owner_range *range_find(const struct registry *registry, uint64_t user)
{
	struct owner_range *range;

	HASH_FIND(hh, registry->ranges, &user, sizeof(user), range);
	return range;
}

unsigned int owners_of_range(const struct registry *registry, uint64_t user)
{
	const struct owner_range *range = range_find(registry, user);

	return range ? range->n_owners : 0;
}

/* Returns: false: no memory. */
static bool range_join(struct registry *registry, struct owner *owner)
{
	uint64_t user = subordinates_user(registry->subordinates, owner->uid);
	struct owner_range *range;

	if (subordinates_first(user) < 0)
		return true;
	range = range_find(registry, user);
	if (!range) {
		range = calloc(1, sizeof(*range));
		if (!range)
			return false;
		range->user = user;
		HASH_ADD(hh, registry->ranges, user, sizeof(range->user), range);
	}
	range->n_owners++;
	owner->range = range;
	return true;
}

static void range_leave(struct registry *registry, struct owner *owner)
{
	struct owner_range *range = owner->range;

	if (!range || --range->n_owners > 0)
		return;
	HASH_DEL(registry->ranges, range);
	free(range);
}

struct owner *owner_new(struct registry *registry, uid_t uid, gid_t gid,
			uint32_t meter_record)
{
	struct owner *owner = calloc(1, sizeof(*owner));

	if (!owner)
		return NULL;
	owner->uid = uid;
	owner->gid = gid;
	owner->used_ms = clock_ms();
	owner->shares.defaults = &registry->limits;
	if (!range_join(registry, owner) ||
	    meter_begin(registry, owner, meter_record) < 0) {
		range_leave(registry, owner);
		free(owner);
		return NULL;
	}
	return owner;
}

void owner_discard(struct registry *registry, struct owner *owner)
{
	meter_end(registry, owner);
	range_leave(registry, owner);
	free(owner);
}

void owner_list(struct registry *registry, struct owner *owner)
{
	HASH_ADD(hh, registry->owners_by_uid, uid, sizeof(owner->uid), owner);
	if (registry->user_names)
		user_names_want(registry->user_names, owner->uid);
}

int uid_parse(const char *word, uid_t *ret_uid)
{
	uint64_t number;

	if (strspn(word, "0123456789") != strlen(word) || (word[0] == '0' && word[1]) ||
	    number_parse(word, &number) < 0 || number >= UINT32_MAX)
		return -EINVAL;
	*ret_uid = (uid_t)number;
	return 0;
}

struct owner *owner_find(const struct registry *registry, uid_t uid)
{
	struct owner *owner;

	HASH_FIND(hh, registry->owners_by_uid, &uid, sizeof(uid), owner);
	return owner;
}

struct owner *owner_get(struct registry *registry, uid_t uid, gid_t gid)
{
	struct owner *owner = owner_make(registry, uid);

	if (owner && owner->gid != gid) {
		owner->gid = gid;
		owner_save(registry, owner);
	}
	return owner;
}

struct owner *owner_make(struct registry *registry, uid_t uid)
{
	struct owner *owner = owner_find(registry, uid);

	if (owner) {
		owner->used_ms = clock_ms();
		return owner;
	}
	owner = owner_new(registry, uid, GROUP_UNKNOWN, 0);
	if (!owner)
		return NULL;
	if (owner_record_take(registry, owner) < 0) {
		owner_discard(registry, owner);
		return NULL;
	}
	if (handle_table_add(&registry->owners, owner, &owner->slot,
			     &owner->slot_generation) < 0) {
		owner_record_drop(registry, owner);
		owner_discard(registry, owner);
		return NULL;
	}
	owner_list(registry, owner);
	owner_save(registry, owner);
	return owner;
}

void owner_free(struct registry *registry, struct owner *owner)
{
	HASH_DEL(registry->owners_by_uid, owner);
	handle_table_remove(&registry->owners, owner->slot);
	owner_record_drop(registry, owner);
	owner_discard(registry, owner);
}
