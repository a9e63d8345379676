/* SPDX-License-Identifier: MIT */
#include "model/order.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <utlist.h>

#include "model/order_private.h"
#include "model/registry.h"
#include "model/stream.h"

/* So many reads are cheap to look at. */
#define READS_LOOKED_AT 32

int work_reserve_uses(struct work *work, unsigned int n)
{
	assert(work->n_uses == 0);
	if (n <= WORK_USES_ROOM)
		return 0;
	work->uses = calloc(n, sizeof(*work->uses));
	if (!work->uses)
		return -ENOMEM;
	work->uses_capacity = n;
	return 0;
}

void work_deinit(struct work *work)
{
	if (work->uses != work->room)
		free(work->uses);
	free(work->followers);
	free(work->predecessors);
	work->uses = NULL;
	work->followers = NULL;
	work->predecessors = NULL;
}

void work_use(struct work *work, struct allocation *allocation, uint64_t offset,
	      uint64_t length, bool write)
{
	if (!work->uses_capacity) {
		work->uses = work->room;
		work->uses_capacity = WORK_USES_ROOM;
	}
	assert(work->n_uses < work->uses_capacity);
	work->uses[work->n_uses++] = (struct use){
		.work = work,
		.allocation = allocation,
		.offset = offset,
		.length = length,
		.write = write,
	};
}

bool work_has_begun(const struct work *work)
{
	return work->sending || work->sent || work->within;
}

bool work_is_before(const struct work *work, const struct work *after)
{
	for (unsigned int i = 0; i < after->n_predecessors; i++) {
		if (after->predecessors[i].work == work)
			return true;
	}
	return false;
}

/*
 * Such uses never wait for one another, and there may be thousands: they are at the end
 * of the allocation's list.
 */
static bool use_is_plain_read(const struct use *use)
{
	return !use->write && !use->places && !use->watches;
}

static uint64_t use_end(const struct use *use)
{
	return use->offset + use->length + use->beyond;
}

static bool use_conflicts(const struct use *a, const struct use *b)
{
	if (a->watches || b->watches)
		return a->allocation->state == ALLOCATION_FREED;
	return (a->write || b->write || (a->places && b->places)) &&
	       a->offset < use_end(b) && b->offset < use_end(a);
}

/* A wait for later includes the wait for earlier. */
static bool use_replaces(const struct use *later, const struct use *earlier)
{
	bool covers =
		later->offset <= earlier->offset && use_end(earlier) <= use_end(later);

	if (!covers || earlier->watches)
		return false;
	if (later->write)
		return true;
	return !earlier->write && earlier->places <= later->places &&
	       later->work->stream && later->work->stream == earlier->work->stream;
}

/* Makes room for one more item in a list. Returns: the list; NULL: no memory. */
static void *list_reserve(void *items, size_t size, unsigned int n,
			  unsigned int *capacity)
{
	unsigned int larger = *capacity ? *capacity * 2 : 4;

	if (n < *capacity)
		return items;
	items = reallocarray(items, larger, size);
	if (items)
		*capacity = larger;
	return items;
}

/* Makes room for a wait. Returns: 0; -ENOMEM. */
static int wait_reserve(struct work *work, struct work *before)
{
	struct follower *followers =
		list_reserve(before->followers, sizeof(*followers), before->n_followers,
			     &before->followers_capacity);
	struct predecessor *predecessors;

	if (!followers)
		return -ENOMEM;
	before->followers = followers;
	predecessors = list_reserve(work->predecessors, sizeof(*predecessors),
				    work->n_predecessors, &work->predecessors_capacity);
	if (!predecessors)
		return -ENOMEM;
	work->predecessors = predecessors;
	return 0;
}

static void wait_add(struct work *work, struct work *before, bool chained)
{
	before->followers[before->n_followers] = (struct follower){
		.work = work,
		.back = work->n_predecessors,
		.chained = chained,
	};
	work->predecessors[work->n_predecessors++] = (struct predecessor){
		.work = before,
		.back = before->n_followers++,
	};
}

/* The last of a list takes the place of the removed one. */
static void predecessor_remove(struct work *work, unsigned int i)
{
	const struct predecessor *last = &work->predecessors[--work->n_predecessors];

	if (i == work->n_predecessors)
		return;
	work->predecessors[i] = *last;
	last->work->followers[last->back].back = i;
}

/* Whether the GPU can keep the order of the two. */
static bool work_chains(const struct work *work, const struct work *before)
{
	if (!work->chain || work->chain != before->chain || work->alone)
		return false;
	return work->stream == before->stream || work->n_after_due < WORK_AFTER_MAX;
}

static void work_note_sent(struct work *work, const struct work *before)
{
	if (work->stream != before->stream)
		work->after[work->n_after++] = before->sent_id;
}

/* When two uses meet the same work, this work is the last follower already. */
static bool work_waits_for(const struct work *work, const struct work *before)
{
	return before->n_followers &&
	       before->followers[before->n_followers - 1].work == work;
}

static uint64_t holder_of_both(uint64_t a, uint64_t b)
{
	if (a == b || !b)
		return a;
	return a ? HOLDER_SEVERAL : b;
}

int work_wait_for(struct work *work, struct work *before)
{
	bool chained;
	int r;

	if (work_waits_for(work, before))
		return 0;
	if (work->n_waits >= work->waits_most)
		return -EBUSY;
	r = wait_reserve(work, before);
	if (r < 0)
		return r;
	work->n_waits++;
	work->held_by = holder_of_both(work->held_by, before->held_by);
	chained = work_chains(work, before);
	wait_add(work, before, chained);
	if (!chained) {
		work->n_before++;
		return 0;
	}
	work->n_ahead++;
	work->n_after_due += work->stream != before->stream;
	if (before->sent)
		work_note_sent(work, before);
	else
		work->n_before++;
	return 0;
}

/* Ordinary works drop the uses of works that they wait for from the list. */
static bool work_looks_at_all(const struct work *work)
{
	return work->takes_from || work->syncs;
}

/* NULL also where only plain reads are left that the use does not wait for. */
static struct use *use_unless_read(const struct use *use, struct use *before)
{
	bool minds_reads = use->write || use->watches;

	return before && !minds_reads && use_is_plain_read(before) ? NULL : before;
}

/* The first use that a use may have to wait for, and the next one. */
static struct use *use_first_before(const struct use *use)
{
	if (work_looks_at_all(use->work))
		return use->allocation->all_uses;
	return use_unless_read(use, use->allocation->uses);
}

static struct use *use_next_before(const struct use *use, const struct use *before)
{
	if (work_looks_at_all(use->work))
		return before->next_of_all;
	return use_unless_read(use, before->next);
}

bool use_waits_for(const struct use *use, const struct use *before)
{
	const void *worker = use->work->takes_from;

	if (worker)
		return before->work->within == worker ||
		       (before->work->chain == worker && work_has_begun(before->work));
	if (use->work->syncs)
		return before->work->writer == use->work->syncs;
	return use_conflicts(use, before);
}

/*
 * A work waits for those before it on its stream up to the first that is not detached: a
 * detached one waits for nothing. The next of them; NULL: this was the first.
 */
static struct work *stream_next_before(const struct work *before)
{
	return before->detached ? before->stream_before : NULL;
}

/* Undoes work_wait_for() for a work that could not be added: the last to follow. */
static void work_forget_waits(struct work *work)
{
	for (unsigned int i = 0; i < work->n_predecessors; i++)
		work->predecessors[i].work->n_followers--;
	work->n_predecessors = 0;
	work->n_before = work->n_ahead = work->n_waits = 0;
	work->n_after = work->n_after_due = 0;
}

static int work_find_waits(struct work *work)
{
	int r;

	for (unsigned int i = 0; i < work->n_uses; i++) {
		const struct use *use = &work->uses[i];

		for (struct use *before = use_first_before(use); before;
		     before = use_next_before(use, before)) {
			if (!use_waits_for(use, before))
				continue;
			r = work_wait_for(work, before->work);
			if (r < 0)
				return r;
		}
	}
	for (struct work *before = work->stream ? work->stream->last : NULL; before;
	     before = stream_next_before(before)) {
		r = work_wait_for(work, before);
		if (r < 0)
			return r;
	}
	return 0;
}

bool order_all_before(const struct work *work, bool (*holds)(const struct work *before))
{
	for (unsigned int i = 0; i < work->n_uses; i++) {
		const struct use *use = &work->uses[i];

		for (const struct use *before = use_first_before(use); before;
		     before = use_next_before(use, before)) {
			if (use_conflicts(use, before) && !holds(before->work))
				return false;
		}
	}
	return true;
}

void use_link(struct use *use)
{
	if (use_is_plain_read(use))
		DL_APPEND(use->allocation->uses, use);
	else
		DL_PREPEND(use->allocation->uses, use);
	use->listed = true;
}

static void use_unlist(struct use *use)
{
	if (use->listed)
		DL_DELETE(use->allocation->uses, use);
	use->listed = false;
}

void use_note_dropped(struct use *use, struct use *by)
{
	if (use->dropped_by)
		DL_DELETE2(use->dropped_by->dropped, use, prev_dropped, next_dropped);
	use->dropped_by = by;
	if (by)
		DL_APPEND2(by->dropped, use, prev_dropped, next_dropped);
}

static void use_drop_replaced(struct use *use, struct use *earlier)
{
	if (earlier->work == use->work || use->work->takes_from ||
	    !use_replaces(use, earlier))
		return;
	use_unlist(earlier);
	use_note_dropped(earlier, use->work->may_leave ? use : NULL);
}

/*
 * A write replaces any read. A read replaces one of its stream, which is among the newest
 * where few streams take turns.
 */
static void use_drop_replaced_reads(struct use *use)
{
	unsigned int n_left = use->write ? UINT_MAX : READS_LOOKED_AT;
	struct use *first = use->allocation->uses;

	for (struct use *earlier = first ? first->prev : NULL, *before;
	     earlier && use_is_plain_read(earlier) && n_left > 0;
	     earlier = before, n_left--) {
		before = earlier == use->allocation->uses ? NULL : earlier->prev;
		use_drop_replaced(use, earlier);
	}
}

static void use_list(struct use *use)
{
	struct use *earlier, *safe;

	use_drop_replaced_reads(use);
	DL_FOREACH_SAFE (use->allocation->uses, earlier, safe) {
		if (use_is_plain_read(earlier))
			break;
		use_drop_replaced(use, earlier);
	}
	use_link(use);
	DL_APPEND2(use->allocation->all_uses, use, prev_of_all, next_of_all);
	if (use->lasts)
		DL_APPEND2(use->allocation->lasting_uses, use, prev_lasting,
			   next_lasting);
}

int order_add_within(struct work *work, unsigned int most)
{
	int r;

	work->held_by = work->holder;
	work->waits_most = most;
	r = work_find_waits(work);
	if (r < 0) {
		work_forget_waits(work);
		return r;
	}
	for (unsigned int i = 0; i < work->n_uses; i++) {
		use_list(&work->uses[i]);
		work->uses[i].allocation->n_works++;
		work->uses[i].allocation->n_unasked += work->unasked;
		work->uses[i].allocation->n_writes += work->uses[i].write;
	}
	if (work->stream) {
		work->stream_before = work->stream->last;
		if (work->stream_before)
			work->stream_before->stream_after = work;
		work->stream->last = work;
		work->stream->n_works++;
	}
	return 0;
}

int order_add(struct work *work)
{
	return order_add_within(work, UINT_MAX);
}

static void work_push_ready(struct work *work, struct work **ready)
{
	LL_PREPEND2(*ready, work, next_ready);
}

void order_set_unasked(struct work *work, bool unasked)
{
	for (unsigned int i = 0; i < work->n_uses; i++) {
		work->uses[i].allocation->n_unasked -= work->unasked;
		work->uses[i].allocation->n_unasked += unasked;
	}
	work->unasked = unasked;
}

void order_sending(struct work *work)
{
	assert(work->chain && work->n_before == 0 && !work->sent && !work->sending);
	work->sending = true;
	work->n_ahead++;
}

static void work_note_id(struct work *work, uint64_t id, struct work **ready)
{
	work->sent = true;
	work->sent_id = id;
	for (unsigned int i = 0; i < work->n_followers; i++) {
		struct work *after = work->followers[i].work;

		if (!work->followers[i].chained)
			continue;
		work_note_sent(after, work);
		if (--after->n_before == 0)
			work_push_ready(after, ready);
	}
}

bool order_sent(struct work *work, uint64_t id, struct work **ready)
{
	assert(work->sending);
	work->sending = false;
	work->n_ahead--;
	if (id)
		work_note_id(work, id, ready);
	return work->ended && !work->n_ahead;
}

/*
 * Releases a follower of a work that leaves the order, perhaps without having been sent.
 */
static void work_unfollow(struct work *work, const struct follower *follower,
			  struct work **ready)
{
	struct work *after = follower->work;
	bool waited = !follower->chained || !work->sent;

	if (follower->chained)
		after->n_ahead--;
	if (waited && --after->n_before == 0)
		after->held_by = after->holder;
	if (after->ended ? !after->n_ahead : waited && !after->n_before)
		work_push_ready(after, ready);
}

static void work_leave_stream(struct work *work)
{
	struct stream *stream = work->stream;

	stream->n_works--;
	if (stream->last == work)
		stream->last = work->stream_before;
	if (work->stream_before)
		work->stream_before->stream_after = work->stream_after;
	if (work->stream_after)
		work->stream_after->stream_before = work->stream_before;
}

void order_done(struct work *work, struct work **ready)
{
	assert(work->n_before == 0 && work->n_ahead == 0);
	for (unsigned int i = 0; i < work->n_uses; i++) {
		use_unlist(&work->uses[i]);
		use_note_dropped(&work->uses[i], NULL);
		DL_DELETE2(work->uses[i].allocation->all_uses, &work->uses[i],
			   prev_of_all, next_of_all);
		if (work->uses[i].lasts)
			DL_DELETE2(work->uses[i].allocation->lasting_uses, &work->uses[i],
				   prev_lasting, next_lasting);
		work->uses[i].allocation->n_works--;
		work->uses[i].allocation->n_unasked -= work->unasked;
	}
	if (work->stream)
		work_leave_stream(work);
	for (unsigned int i = 0; i < work->n_followers; i++) {
		predecessor_remove(work->followers[i].work, work->followers[i].back);
		work_unfollow(work, &work->followers[i], ready);
	}
	assert(work->n_predecessors == 0);
	free(work->followers);
	work->followers = NULL;
	work->n_followers = work->followers_capacity = 0;
}
