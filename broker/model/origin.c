/* SPDX-License-Identifier: MIT */
#include "model/origin.h"

#include <errno.h>
#include <string.h>

#include <utlist.h>

#include "base/def.h"
#include "base/text.h"
#include "model/owner.h"
#include "model/shares.h"
#include "record/records.h"
#include "record/texts.h"

/* ---- records ---- */

void origin_to_record(const struct origin *origin, struct origin_record *ret_record)
{
	*ret_record = (struct origin_record){
		.owner = origin->owner->uid,
		.cgroup = origin->text,
	};
}

static void origin_unkeep(const struct origin *origin)
{
	struct records *records = origin->owner->records;

	records_begin(records);
	records_drop(records, RECORD_ORIGIN, origin->record);
	record_text_drop(records, origin->text);
	records_end(records);
}

/* Returns: 0; -ENOMEM. */
static int origin_keep(struct origin *origin)
{
	struct records *records = origin->owner->records;
	struct origin_record record;

	if (!records)
		return 0;
	origin->record = records_add(records, RECORD_ORIGIN);
	origin->text = record_text_add(records, origin->cgroup, strlen(origin->cgroup));
	if (!origin->record || !origin->text) {
		origin_unkeep(origin);
		return -ENOMEM;
	}
	origin_to_record(origin, &record);
	records_save(records, RECORD_ORIGIN, origin->record, &record);
	return 0;
}

/* ---- origins of an owner ---- */

static void origin_list(struct origin *origin)
{
	HASH_ADD_KEYPTR(hh, origin->owner->origins, origin->cgroup,
			strlen(origin->cgroup), origin);
}

/* Takes ownership of cgroup, which may be NULL. Returns: NULL: no memory. */
static struct origin *origin_make(struct owner *owner, char *cgroup)
{
	struct origin *origin = cgroup ? calloc(1, sizeof(*origin)) : NULL;

	if (origin)
		*origin = (struct origin){ .cgroup = cgroup, .owner = owner };
	else
		free(cgroup);
	return origin;
}

static void origin_free(struct origin *origin)
{
	if (origin)
		free(origin->cgroup);
	free(origin);
}

static int origin_new(struct owner *owner, const char *cgroup, struct origin **ret_origin)
{
	struct origin *origin;
	int r = share_take(owner, SHARE_CGROUPS, 1);

	if (r < 0)
		return r;
	origin = origin_make(owner, strdup(cgroup));
	if (!origin || origin_keep(origin) < 0) {
		origin_free(origin);
		share_give(owner, SHARE_CGROUPS, 1);
		return -ENOMEM;
	}
	origin_list(origin);
	*ret_origin = origin;
	return 0;
}

int origin_restore(struct owner *owner, uint32_t index,
		   const struct origin_record *record, struct origin **ret_origin)
{
	_cleanup_text_ struct text cgroup = TEXT_INIT;
	struct origin *origin;

	record_text_show(owner->records, record->cgroup, &cgroup);
	if (text_failed(&cgroup))
		return -ENOMEM;
	HASH_FIND_STR(owner->origins, text_string(&cgroup), origin);
	if (origin)
		return -EEXIST;
	origin = origin_make(owner, take_ptr(cgroup.data));
	if (!origin)
		return -ENOMEM;
	origin->record = index;
	origin->text = record->cgroup;
	share_restore(owner, SHARE_CGROUPS, 1);
	origin_list(origin);
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

void origin_join(struct origin *origin, struct allocation *allocation)
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

/* Drops an origin that nothing needs any more. */
static void origin_drop_unused(struct origin *origin)
{
	if (origin->allocations || origin->walks)
		return;
	HASH_DEL(origin->owner->origins, origin);
	origin_unkeep(origin);
	share_give(origin->owner, SHARE_CGROUPS, 1);
	origin_free(origin);
}

void origin_leave(struct allocation *allocation)
{
	struct origin *origin = take_ptr(allocation->origin);
	struct origin_walk *walk;

	if (!origin)
		return;
	LL_FOREACH2(origin->walks, walk, og_next)
	{
		if (walk->next == allocation)
			walk->next = allocation->origin_next;
	}
	DL_DELETE2(origin->allocations, allocation, origin_prev, origin_next);
	origin_drop_unused(origin);
}

/* ---- walks ---- */

void origin_walk_begin(struct origin_walk *walk, struct origin *origin)
{
	*walk = (struct origin_walk){
		.origin = origin,
		.next = origin->allocations,
	};
	LL_PREPEND2(origin->walks, walk, og_next);
}

struct allocation *origin_walk_next(struct origin_walk *walk)
{
	struct allocation *allocation = walk->next;

	walk->next = allocation ? allocation->origin_next : NULL;
	return allocation;
}

struct origin *origin_walk_end(struct origin_walk *walk)
{
	struct origin *origin = walk->origin, *next = origin->hh.next;

	LL_DELETE2(origin->walks, walk, og_next);
	origin_drop_unused(origin);
	return next;
}
