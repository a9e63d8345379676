/* SPDX-License-Identifier: MIT */
#include "registry/order.h"

#include <assert.h>
#include <errno.h>
#include <utlist.h>

#include "registry/registry.h"

void work_use(struct work *work, struct allocation *allocation, uint64_t offset,
	      uint64_t length, bool write)
{
	assert(work->n_uses < WORK_USES_MAX);
	work->uses[work->n_uses++] = (struct use){
		.work = work,
		.allocation = allocation,
		.offset = offset,
		.length = length,
		.write = write,
	};
}

static bool use_conflicts(const struct use *a, const struct use *b)
{
	return (a->write || b->write) && a->offset < b->offset + b->length &&
	       b->offset < a->offset + a->length;
}

/* Whoever waits for later has, in doing so, waited for earlier too. */
static bool use_replaces(const struct use *later, const struct use *earlier)
{
	bool covers = later->offset <= earlier->offset &&
		      earlier->offset + earlier->length <= later->offset + later->length;

	if (!covers)
		return false;
	if (later->write)
		return true;
	return !earlier->write && later->work->stream &&
	       later->work->stream == earlier->work->stream;
}

static int work_reserve(struct work *work)
{
	unsigned int capacity;
	struct work **followers;

	if (work->n_followers < work->followers_capacity)
		return 0;
	capacity = work->followers_capacity ? work->followers_capacity * 2 : 4;
	followers = realloc(work->followers, capacity * sizeof(*followers));
	if (!followers)
		return -ENOMEM;
	work->followers = followers;
	work->followers_capacity = capacity;
	return 0;
}

static int work_wait_for(struct work *work, struct work *before)
{
	int r;

	/* The last entry is ours already when two uses meet the same work. */
	if (before->n_followers && before->followers[before->n_followers - 1] == work)
		return 0;
	r = work_reserve(before);
	if (r < 0)
		return r;
	before->followers[before->n_followers++] = work;
	work->n_before++;
	return 0;
}

static void work_unwait(struct work *work, struct work *before)
{
	if (before->n_followers && before->followers[before->n_followers - 1] == work)
		before->n_followers--;
}

/* Takes back what work_wait_for() did for a work that could not be added. */
static void work_forget_waits(struct work *work)
{
	for (unsigned int i = 0; i < work->n_uses; i++) {
		struct use *use;

		DL_FOREACH (work->uses[i].allocation->uses, use)
			work_unwait(work, use->work);
	}
	if (work->stream && work->stream->last)
		work_unwait(work, work->stream->last);
	work->n_before = 0;
}

static int work_find_waits(struct work *work)
{
	int r;

	for (unsigned int i = 0; i < work->n_uses; i++) {
		struct use *use;

		DL_FOREACH (work->uses[i].allocation->uses, use) {
			if (!use_conflicts(&work->uses[i], use))
				continue;
			r = work_wait_for(work, use->work);
			if (r < 0)
				return r;
		}
	}
	if (work->stream && work->stream->last)
		return work_wait_for(work, work->stream->last);
	return 0;
}

static void use_unlist(struct use *use)
{
	if (use->listed)
		DL_DELETE(use->allocation->uses, use);
	use->listed = false;
}

static void use_list(struct use *use)
{
	struct use *earlier, *safe;

	DL_FOREACH_SAFE (use->allocation->uses, earlier, safe) {
		if (earlier->work != use->work && use_replaces(use, earlier))
			use_unlist(earlier);
	}
	DL_APPEND(use->allocation->uses, use);
	use->listed = true;
}

int order_add(struct work *work)
{
	int r;

	r = work_find_waits(work);
	if (r < 0) {
		work_forget_waits(work);
		return r;
	}
	for (unsigned int i = 0; i < work->n_uses; i++) {
		use_list(&work->uses[i]);
		work->uses[i].allocation->n_works++;
		work->uses[i].allocation->n_writes += work->uses[i].write;
	}
	if (work->stream) {
		work->stream->last = work;
		work->stream->n_works++;
	}
	return 0;
}

void order_done(struct work *work, struct work **ready)
{
	assert(work->n_before == 0);
	for (unsigned int i = 0; i < work->n_uses; i++) {
		use_unlist(&work->uses[i]);
		work->uses[i].allocation->n_works--;
	}
	if (work->stream) {
		work->stream->n_works--;
		if (work->stream->last == work)
			work->stream->last = NULL;
	}
	for (unsigned int i = 0; i < work->n_followers; i++) {
		struct work *after = work->followers[i];

		if (--after->n_before == 0) {
			after->next_ready = *ready;
			*ready = after;
		}
	}
	free(work->followers);
	work->followers = NULL;
	work->n_followers = work->followers_capacity = 0;
}
