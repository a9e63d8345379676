/* SPDX-License-Identifier: MIT */
#include "memops/free_from.h"

#include <pthread.h>

#include "base/cgroup.h"
#include "base/hash.h"
#include "base/refusal.h"
#include "memops/release.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/origin.h"
#include "model/owner.h"
#include "model/registry.h"
#include "process/broker.h"

/* As for a free by name: the allocation, and its place in the folder. */
static bool may_free(const struct caller *caller, const struct allocation *allocation)
{
	struct refusal refusal;

	return caller_may(caller, allocation, ACCESS_OWN) &&
	       folder_check(allocation->entry.folder, caller, FOLDER_WRITE, &refusal) ==
		       0;
}

/* Allocations and origins that are looked at before others get the lock. */
#define PIECE 256

struct cgroup_free {
	struct broker *broker;
	const struct caller *caller;
	const char *cgroup;
	uint64_t last_id;     /* of the allocations that were there at the beginning */
	unsigned int n_looks; /* since others could have the lock */
	uint64_t n_freed, bytes;
};

/* Counts a look, after which others may get the lock. */
static void cgroup_free_look(struct cgroup_free *all)
{
	if (++all->n_looks < PIECE)
		return;
	all->n_looks = 0;
	registry_let_others(all->broker->registry);
}

/* Returns: the next origin of the owner; NULL: that was the last. */
static struct origin *cgroup_free_origin(struct cgroup_free *all, struct origin *origin)
{
	bool is_within = cgroup_is_within(origin->cgroup, all->cgroup);
	struct allocation *allocation;
	struct origin_walk walk;

	origin_walk_begin(&walk, origin);
	while (is_within && (allocation = origin_walk_next(&walk))) {
		/* Behind a new one there may be an older one of another owner's. */
		if (allocation->id <= all->last_id &&
		    allocation->state != ALLOCATION_MAKING &&
		    may_free(all->caller, allocation)) {
			all->n_freed++;
			all->bytes += allocation->size;
			allocation_release_by(all->broker, allocation, all->caller);
			pthread_mutex_lock(&all->broker->registry->lock);
		}
		cgroup_free_look(all);
	}
	cgroup_free_look(all);
	return origin_walk_end(&walk);
}

uint64_t allocations_free_from(struct broker *broker, const struct caller *caller,
			       const char *cgroup, uint64_t *ret_bytes)
{
	struct registry *registry = broker->registry;
	bool of_all = caller->uid == 0;
	struct cgroup_free all = { broker, caller, cgroup };
	struct origin *origin;
	struct owner *owner;

	pthread_mutex_lock(&registry->lock);
	all.last_id = registry->next_id[ID_ALLOCATION];
	owner = of_all ? registry->owners_by_uid : owner_find(registry, caller->uid);
	for (; owner; owner = of_all ? owner->hh.next : NULL) {
		/* The walk keeps the owner, until the lock is held for the next one. */
		for (origin = owner->origins; origin;)
			origin = cgroup_free_origin(&all, origin);
	}
	pthread_mutex_unlock(&registry->lock);
	*ret_bytes = all.bytes;
	return all.n_freed;
}
