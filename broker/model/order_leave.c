/* SPDX-License-Identifier: MIT */
/*
 * Works that have not begun leave the order, and others wait for their predecessors.
 *
 * A use drops earlier uses from the list of its allocation because later works wait for
 * this use, and with it for the earlier ones. When the use leaves, its followers inherit
 * what it dropped, and the list has the dropped ones again. How many pairs of a follower
 * and a predecessor there are is up to users, so the search for them is bounded.
 */
#include "model/order_private.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <utlist.h>

#define PAIRS_MOST 100000

/* The follower waits for the dropped use from now on, if the two conflict. */
static int work_inherit(struct work *follower, struct use *dropped)
{
	for (unsigned int i = 0; i < follower->n_uses; i++) {
		const struct use *use = &follower->uses[i];

		if (use->allocation == dropped->allocation && use_waits_for(use, dropped))
			return work_wait_for(follower, dropped->work);
	}
	return 0;
}

/* Followers of the work that don't follow the dropped use's work yet inherit the use. */
static int work_inherit_all(const struct work *work, struct use *dropped)
{
	const struct work *before = dropped->work;
	unsigned int n_followers = before->n_followers;
	int r = 0;

	for (unsigned int i = 0; i < n_followers; i++)
		before->followers[i].work->follows = true;
	for (unsigned int i = 0; r == 0 && i < work->n_followers; i++) {
		if (!work->followers[i].work->follows)
			r = work_inherit(work->followers[i].work, dropped);
	}
	for (unsigned int i = 0; i < n_followers; i++)
		before->followers[i].work->follows = false;
	return r;
}

/* What use_bequeath() and use_list_dropped() look at. */
static uint64_t use_pairs(const struct use *use)
{
	const struct work *work = use->work;
	const struct use *earlier;
	uint64_t n = 0;

	DL_FOREACH2(use->dropped, earlier, next_dropped)
	n += 1 + work->n_followers + (work->n_followers ? earlier->work->n_followers : 0);
	return n;
}

/*
 * Followers of the use's work wait for what the use dropped. Returns: 0; -EBUSY when that
 * takes more than so many pairs, -ENOMEM.
 */
static int use_bequeath(struct use *use, uint64_t *pairs_left)
{
	const struct work *work = use->work;
	uint64_t pairs = use_pairs(use);
	struct use *earlier;
	int r = 0;

	if (pairs > *pairs_left)
		return -EBUSY;
	*pairs_left -= pairs;
	DL_FOREACH2(use->dropped, earlier, next_dropped)
	{
		if (r < 0 || !work->n_followers)
			break;
		r = work_inherit_all(work, earlier);
	}
	return r;
}

/* Uses that the use dropped are listed again, or are dropped by what has dropped it. */
static void use_list_dropped(struct use *use)
{
	while (use->dropped) {
		struct use *earlier = use->dropped;

		use_note_dropped(earlier, use->dropped_by);
		if (use->listed)
			use_link(earlier);
	}
}

/* The last of a list takes the place of the removed one. */
static void follower_remove(struct work *work, unsigned int i)
{
	const struct follower *last = &work->followers[--work->n_followers];

	if (i == work->n_followers)
		return;
	work->followers[i] = *last;
	last->work->predecessors[last->back].back = i;
}

/* The work waits for nothing any more. */
static void work_forget_predecessors(struct work *work)
{
	for (unsigned int i = 0; i < work->n_uses; i++)
		use_list_dropped(&work->uses[i]);
	while (work->n_predecessors > 0) {
		const struct predecessor *last =
			&work->predecessors[--work->n_predecessors];
		const struct follower *follower = &last->work->followers[last->back];

		work->n_before -= !follower->chained || !last->work->sent;
		work->n_ahead -= follower->chained;
		follower_remove(last->work, last->back);
	}
}

static bool work_follows(const struct work *work, const struct work *before)
{
	for (unsigned int i = 0; i < before->n_followers; i++) {
		if (before->followers[i].work == work)
			return true;
	}
	return false;
}

/*
 * The next work on the stream waits for the one before; those between are detached, too.
 * Returns: 0; -ENOMEM.
 */
static int work_bequeath_stream(struct work *work, struct detaching *all)
{
	struct work *before = work->stream_before, *after = work->stream_after;

	while (before && before->detached)
		before = before->stream_before;
	/* From the newest on, each would go along all that were detached before. */
	if (after && after == all->last)
		after = all->after;
	while (after && after->detached)
		after = after->stream_after;
	all->last = work;
	all->after = after;
	if (!before || !after || work_follows(after, before))
		return 0;
	return work_wait_for(after, before);
}

int order_detach(struct work *work, struct detaching *all)
{
	int r;

	assert(work->may_leave && !work_has_begun(work));
	/* Who waited for the work may wait for all that the work has waited for. */
	for (unsigned int i = 0; i < work->n_followers; i++)
		work->followers[i].work->waits_most = UINT_MAX;
	for (unsigned int i = 0; i < work->n_uses; i++) {
		r = use_bequeath(&work->uses[i], &all->pairs_left);
		if (r < 0)
			return r;
	}
	r = work_bequeath_stream(work, all);
	if (r < 0)
		return r;
	work_forget_predecessors(work);
	assert(work->n_before == 0 && work->n_ahead == 0);
	work->detached = true;
	return 0;
}

bool order_leave(struct work *work, struct work **ready)
{
	uint64_t pairs_left = PAIRS_MOST;

	if (!work->may_leave || work->n_before == 0)
		return false;
	for (unsigned int i = 0; i < work->n_uses; i++) {
		if (use_bequeath(&work->uses[i], &pairs_left) < 0)
			return false;
	}
	work_forget_predecessors(work);
	order_done(work, ready);
	return true;
}
