/* SPDX-License-Identifier: MIT */
/*
 * All checks come first and change nothing; then, under the same taking of the lock,
 * nothing can fail any more.
 */
#include "memops/publish.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/def.h"
#include "base/refusal.h"
#include "memops/lease.h"
#include "memops/lifetime.h"
#include "memops/release.h"
#include "memops/seal.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "op/op.h"
#include "process/broker.h"
#include "record/records.h"

/* The set, an entry a pair. */
struct set {
	struct broker *broker;
	const struct caller *caller;
	const struct publication *publications;
	size_t n;
	struct allocation **allocations;
	struct allocation **replaced; /* stand at the names; NULL: none */
	struct name_place *places;    /* of `to` */
	struct entry **entries;	      /* of the allocations */
};

static void set_deinit(struct set *set)
{
	for (size_t i = 0; set->places && i < set->n; i++)
		name_place_deinit(&set->places[i]);
	free(set->places);
	free(set->entries);
	free(set->allocations);
	free(set->replaced);
}

static int set_init(struct set *set)
{
	set->allocations = calloc(set->n, sizeof(*set->allocations));
	set->replaced = calloc(set->n, sizeof(*set->replaced));
	set->places = calloc(set->n, sizeof(*set->places));
	set->entries = calloc(set->n, sizeof(*set->entries));
	return set->allocations && set->replaced && set->places && set->entries ? 0
										: -ENOMEM;
}

/* Each name once on either side. */
static int check_names(const struct set *set, struct refusal *refusal)
{
	const struct publication *pairs = set->publications;

	for (size_t i = 0; i < set->n; i++) {
		for (size_t j = 0; j < i; j++) {
			if (strcmp(pairs[i].name, pairs[j].name) == 0)
				return refuse(refusal, EINVAL,
					      "%s is given two names: %s and %s",
					      pairs[i].name, pairs[j].to, pairs[i].to);
			if (strcmp(pairs[i].to, pairs[j].to) == 0)
				return refuse(refusal, EINVAL,
					      "%s and %s can't both be called %s",
					      pairs[j].name, pairs[i].name, pairs[i].to);
		}
	}
	return 0;
}

/* Whether the allocation gets another name itself. */
static bool set_has(const struct set *set, const struct allocation *allocation)
{
	for (size_t i = 0; i < set->n; i++) {
		if (set->allocations[i] == allocation)
			return true;
	}
	return false;
}

static int find_allocations(struct set *set, struct refusal *refusal)
{
	for (size_t i = 0; i < set->n; i++) {
		struct allocation *allocation = allocation_find_made(
			set->broker->registry, set->publications[i].name, set->caller,
			refusal);
		int r;

		if (!allocation)
			return -refusal->error;
		r = allocation_check_id(allocation, set->publications[i].id, refusal);
		if (r < 0)
			return r;
		set->allocations[i] = allocation;
		set->entries[i] = &allocation->entry;
	}
	return 0;
}

/* A line may name hundreds of files that programs had open, and may be repeated without
 * end. No lock held. */
static void ask_kernel(const struct set *set)
{
	for (size_t i = 0; i < set->n; i++) {
		if (!seal_ask(set->broker, set->caller, set->publications[i].name))
			return;
	}
}

bool publish_lasts(struct broker *broker, const struct caller *caller,
		   const struct publication *publications, size_t n)
{
	bool lasts = false;

	pthread_mutex_lock(&broker->registry->lock);
	for (size_t i = 0; i < n && !lasts; i++) {
		struct refusal refusal;
		const struct allocation *allocation = allocation_find_made(
			broker->registry, publications[i].name, caller, &refusal);

		lasts = allocation && seal_question_lasts(caller, allocation);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	return lasts;
}

static int check_seals(struct set *set, struct refusal *refusal)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < set->n; i++)
		r = seal_check(set->caller, set->allocations[i], refusal);
	return r;
}

/* Where nothing but memory of the broker can be missing any more. */
static int prepare_seals(struct set *set, struct op **ready, struct refusal *refusal)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < set->n; i++)
		r = seal_prepare(set->broker, set->allocations[i], ready, refusal);
	return r;
}

/* Where the names will be: in folders that the caller may change, with room. */
static int find_places(struct set *set, struct refusal *refusal)
{
	for (size_t i = 0; i < set->n; i++) {
		struct name_place *place = &set->places[i];
		const struct entry *entry = set->entries[i];
		int r = path_resolve(set->broker->registry, OBJECT_ALLOCATION,
				     set->publications[i].to, set->caller, place,
				     refusal);

		if (r < 0)
			return r;
		if (entry_folder(folder_find(place->folder, place->name)))
			return refuse(refusal, EISDIR, "%s is a folder",
				      set->publications[i].to);
		if (name_place_reserve(place, (uint32_t)set->n) < 0)
			return refuse(refusal, ENOMEM, "no memory in the broker");
		if (entry->folder == place->folder &&
		    strcmp(entry->name, place->name) == 0)
			continue;
		r = folder_check(entry->folder, set->caller, FOLDER_WRITE, refusal);
		if (r == 0)
			r = folder_check(place->folder, set->caller, FOLDER_WRITE,
					 refusal);
		if (r < 0)
			return r;
	}
	return 0;
}

static int find_replaced(struct set *set, struct refusal *refusal)
{
	for (size_t i = 0; i < set->n; i++) {
		const char *to = set->publications[i].to;
		struct allocation *old = allocation_of(
			folder_find(set->places[i].folder, set->places[i].name));

		if (!old || set_has(set, old))
			continue;
		if (old->state == ALLOCATION_MAKING)
			return refuse(refusal, EBUSY,
				      "an allocation %s is being made right now", to);
		if (!caller_may(set->caller, old, ACCESS_OWN))
			return refuse(refusal, EPERM,
				      "the name %s is taken by an allocation of uid %u, "
				      "which uid %u may not free",
				      to, old->owner->uid, set->caller->uid);
		set->replaced[i] = old;
	}
	return 0;
}

/* Nothing here fails. */
static void set_publish(struct set *set, struct op **ready)
{
	struct journal *journal = set->broker->journal;

	records_begin(set->broker->registry->records);
	for (size_t i = 0; i < set->n; i++) {
		seal(set->broker, set->allocations[i], set->caller, ready);
		lifetime_leave(set->allocations[i]);
		allocation_save(set->allocations[i]);
		if (!set->replaced[i])
			continue;
		set->replaced[i]->replaced = true;
		allocation_release_held(set->broker, set->replaced[i], set->caller,
					ready);
	}
	entries_move(set->entries, set->places, set->n);
	records_end(set->broker->registry->records);
	for (size_t i = 0; i < set->n; i++) {
		leases_note_changed(set->broker, set->allocations[i]);
		journal_event_by(journal, set->caller, "publish allocations/%s from=%s",
				 allocation_name(set->allocations[i]).text,
				 set->publications[i].name);
	}
}

int publish(struct broker *broker, const struct caller *caller,
	    const struct publication *publications, size_t n, struct refusal *refusal)
{
	_cleanup_(set_deinit) struct set set = {
		.broker = broker,
		.caller = caller,
		.publications = publications,
		.n = n,
	};
	struct op *ready = NULL;
	int r = check_names(&set, refusal);

	if (r < 0)
		return r;
	if (set_init(&set) < 0)
		return refuse(refusal, ENOMEM, "no memory in the broker");
	ask_kernel(&set);
	pthread_mutex_lock(&broker->registry->lock);
	r = find_allocations(&set, refusal);
	if (r == 0)
		r = find_places(&set, refusal);
	if (r == 0)
		r = find_replaced(&set, refusal);
	if (r == 0)
		r = check_seals(&set, refusal);
	if (r == 0)
		r = prepare_seals(&set, &ready, refusal);
	if (r == 0)
		set_publish(&set, &ready);
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(ready);
	return r;
}
