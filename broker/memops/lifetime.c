/* SPDX-License-Identifier: MIT */
#include "memops/lifetime.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include <utlist.h>

#include "base/cgroup.h"
#include "base/crash.h"
#include "base/hash.h"
#include "base/process.h"
#include "base/refusal.h"
#include "base/text.h"
#include "base/workqueue.h"
#include "memops/lease.h"
#include "memops/lifetime_open.h"
#include "memops/release.h"
#include "memory/kept.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/origin.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "model/shares.h"
#include "process/broker.h"
#include "process/user_lanes.h"
#include "record/records.h"
#include "record/texts.h"

/* All under registry.lock. */
struct lifetime {
	struct broker *broker;
	enum lifetime_kind kind;
	unsigned int n_refs;
	bool over;
	struct lifetime_member *members;
	struct task rest; /* frees the members that are left */

	/* Of processes and cgroups. */
	char *key;	     /* UID PID or UID CGROUP, in lifetimes.by_key; NULL: left */
	int fd;		     /* pidfd, or cgroup.events; -1: none */
	uid_t uid;	     /* whose */
	uint64_t watch;	     /* in the reaper, which has a reference; 0: not any more */
	struct owner *payer; /* charged for the descriptor */
	uint32_t record;     /* the next broker goes on; 0: not */
	UT_hash_handle hh;
};

static const char *const words[] = {
	[LIFETIME_CLOSE] = "close",
	[LIFETIME_EXIT] = "exit",
	[LIFETIME_CGROUP] = "cgroup",
};

int lifetime_find_kind(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcmp(word, words[i]) == 0)
			return (int)i;
	}
	return -EINVAL;
}

const char *lifetime_word(const struct allocation *allocation)
{
	const struct lifetime_member *member = allocation->rare->lifetime;

	return member ? words[member->lifetime->kind] : "none";
}

/* ---- references ---- */

static void lifetime_forget(struct lifetime *lifetime)
{
	if (lifetime->key)
		HASH_DEL(lifetime->broker->lifetimes->by_key, lifetime);
	free(take_ptr(lifetime->key));
}

/* payer: of the descriptor; NULL: nobody. Under registry.lock. */
static void lifetime_close(struct broker *broker, uid_t uid, int fd, uint32_t record,
			   struct owner *payer)
{
	struct records *records = broker->registry->records;
	const struct lifetime_record *saved =
		records_get(records, RECORD_LIFETIME, record);
	uint32_t key = saved ? saved->key : 0;
	const struct lane_close closing = {
		.fd = fd,
		.kept = kept_unrecord(broker->memory, RECORD_LIFETIME, record),
		.payer = payer,
	};

	record_text_drop(records, key);
	user_lane_close(broker, uid, &closing);
}

/* Returns: 0; -ENOMEM. */
static int lifetime_save(const struct lifetime *lifetime)
{
	struct records *records = lifetime->broker->registry->records;
	struct lifetime_record record = {
		.kind = lifetime->kind,
		.uid = lifetime->payer->uid,
		.gid = lifetime->payer->gid,
	};

	if (!lifetime->record)
		return 0;
	record.key = record_text_add(records, lifetime->key, strlen(lifetime->key));
	if (!record.key)
		return -ENOMEM;
	records_save(records, RECORD_LIFETIME, lifetime->record, &record);
	return 0;
}

static void lifetime_free(struct lifetime *lifetime)
{
	lifetime_forget(lifetime);
	if (lifetime->fd >= 0)
		lifetime_close(lifetime->broker, lifetime->uid, lifetime->fd,
			       lifetime->record, lifetime->payer);
	free(lifetime);
}

struct lifetime *lifetime_ref(struct lifetime *lifetime)
{
	if (lifetime)
		lifetime->n_refs++;
	return lifetime;
}

void lifetime_unref(struct lifetime *lifetime)
{
	if (!lifetime)
		return;
	/* The last reference is the reaper's, unless it is about to end the lifetime. */
	if (--lifetime->n_refs == 1 && lifetime->watch &&
	    reaper_remove(&lifetime->broker->leases->reaper, lifetime->watch))
		lifetime->n_refs--;
	if (!lifetime->n_refs)
		lifetime_free(lifetime);
}

int lifetime_add(struct lifetime *lifetime, struct allocation *allocation)
{
	struct lifetime_member *member;

	if (!lifetime)
		return 0;
	if (allocation_make_rare(allocation) < 0)
		return -ENOMEM;
	member = malloc(sizeof(*member));
	if (!member)
		return -ENOMEM;
	*member = (struct lifetime_member){
		.allocation = allocation,
		.lifetime = lifetime_ref(lifetime),
		.record = lifetime->record,
	};
	allocation->rare->lifetime = member;
	/* The memory would end with the broker. */
	if (!lifetime->record)
		crash_hold();
	DL_APPEND(lifetime->members, member);
	allocation_save(allocation);
	return 0;
}

void lifetime_leave(struct allocation *allocation)
{
	_cleanup_free_ struct lifetime_member *member = allocation->rare->lifetime;

	if (!member)
		return;
	allocation->rare->lifetime = NULL;
	if (!member->record)
		crash_let_go();
	DL_DELETE(member->lifetime->members, member);
	/* No record may name the record of a freed lifetime. */
	allocation_save(allocation);
	lifetime_unref(member->lifetime);
}

bool lifetime_is_over(const struct allocation *allocation)
{
	const struct lifetime_member *member = allocation->rare->lifetime;

	return member && member->lifetime->over;
}

/* ---- the end ---- */

/*
 * The first allocation to free. An allocation being made is freed by its own request: it
 * goes behind all others, so thousands of these are not passed again for each free.
 */
static struct allocation *lifetime_first_made(struct lifetime *lifetime)
{
	struct lifetime_member *member;
	const struct lifetime_member *last =
		lifetime->members ? lifetime->members->prev : NULL;

	while ((member = lifetime->members)) {
		if (member->allocation->state != ALLOCATION_MAKING)
			return member->allocation;
		if (member == last)
			break;
		DL_DELETE(lifetime->members, member);
		DL_APPEND(lifetime->members, member);
	}
	return NULL;
}

/* Allocations that a thread frees at a time. */
#define FREED_AT_ONCE 64

/*
 * A lifetime may have all of a user's allocations. Its end comes in a thread of the view
 * or of the reaper, so the work queue frees what is beyond the first few. Under
 * registry.lock, which it releases.
 */
static void lifetime_free_some(struct lifetime *lifetime)
{
	struct broker *broker = lifetime->broker;
	struct registry *registry = broker->registry;
	struct allocation *allocation;
	unsigned int n_left = FREED_AT_ONCE;

	while ((allocation = lifetime_first_made(lifetime)) && n_left-- > 0) {
		allocation_release(broker, allocation);
		pthread_mutex_lock(&registry->lock);
	}
	if (allocation) {
		uid_t uid = allocation->owner->uid;

		registry->n_busy++;
		pthread_mutex_unlock(&registry->lock);
		workqueue_add(broker->workqueue, uid, &lifetime->rest);
		return;
	}
	lifetime_unref(lifetime);
	pthread_mutex_unlock(&registry->lock);
}

static void lifetime_go_on(struct task *rest)
{
	struct lifetime *lifetime = container_of(rest, struct lifetime, rest);
	struct registry *registry = lifetime->broker->registry;

	pthread_mutex_lock(&registry->lock);
	registry_less_busy(registry);
	lifetime_free_some(lifetime);
}

void lifetime_end(struct lifetime *lifetime)
{
	pthread_mutex_lock(&lifetime->broker->registry->lock);
	lifetime->over = true;
	lifetime_forget(lifetime);
	lifetime->rest.run = lifetime_go_on;
	lifetime_free_some(lifetime);
}

/* The broker that ends frees all allocations in any case, once their uses are done. */
static void lifetime_reaped(void *userdata)
{
	struct lifetime *lifetime = userdata;
	struct registry *registry = lifetime->broker->registry;
	bool ending;

	pthread_mutex_lock(&registry->lock);
	lifetime->watch = 0;
	ending = registry->shutting_down;
	if (ending)
		lifetime_unref(lifetime);
	pthread_mutex_unlock(&registry->lock);
	if (!ending)
		lifetime_end(lifetime);
}

/* ---- the table ---- */

static struct lifetime *lifetime_find(const struct broker *broker, const char *key)
{
	struct lifetime *lifetime;

	HASH_FIND_STR(broker->lifetimes->by_key, key, lifetime);
	if (!lifetime)
		return NULL;
	if (!reaper_has(&broker->leases->reaper, lifetime->watch) ||
	    (lifetime->kind == LIFETIME_EXIT ? process_has_ended(lifetime->fd)
					     : cgroup_is_over(lifetime->fd))) {
		lifetime_forget(lifetime);
		return NULL;
	}
	return lifetime_ref(lifetime);
}

struct lifetime *lifetime_new(struct broker *broker)
{
	struct lifetime *lifetime = calloc(1, sizeof(*lifetime));

	if (lifetime) {
		lifetime->broker = broker;
		lifetime->n_refs = 1;
		lifetime->fd = -1;
	}
	return lifetime;
}

static int lifetime_charge(struct lifetime *lifetime, const struct caller *user,
			   struct refusal *refusal)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct owner *payer = owner_get(lifetime->broker->registry, user->uid, user->gid);
	int r = payer ? share_take(payer, SHARE_DESCRIPTORS, 1) : -ENOMEM;

	if (r == 0)
		lifetime->payer = payer;
	else if (payer)
		share_explain(payer, &why);
	return r == 0 ? 0
		      : refuse(refusal, -r, "until=%s: %s", words[lifetime->kind],
			       payer ? text_string(&why) : "no memory in the broker");
}

static uint64_t lifetime_await(struct lifetime *lifetime)
{
	bool is_process = lifetime->kind == LIFETIME_EXIT;

	return reaper_add(&lifetime->broker->leases->reaper,
			  &(struct awaited){
				  .fd = lifetime->fd,
				  .events = is_process ? EPOLLIN : EPOLLPRI,
				  .is_over = is_process ? NULL : cgroup_is_over,
				  .done = lifetime_reaped,
				  .userdata = lifetime,
			  });
}

/*
 * Puts a new lifetime into the table and the reaper. Takes ownership of fd and record,
 * also on failure. Under registry.lock.
 */
static int lifetime_watch(struct broker *broker, enum lifetime_kind kind, const char *key,
			  int fd, uint32_t record, const struct caller *user,
			  struct lifetime **ret, struct refusal *refusal)
{
	struct lifetime *lifetime = lifetime_new(broker);
	int r;

	if (!lifetime) {
		lifetime_close(broker, user->uid, fd, record, NULL);
		return refuse(refusal, ENOMEM, "no memory in the broker");
	}
	lifetime->kind = kind;
	lifetime->fd = fd;
	lifetime->uid = user->uid;
	lifetime->record = record;
	r = lifetime_charge(lifetime, user, refusal);
	if (r == 0 && (lifetime->key = strdup(key)) && lifetime_save(lifetime) == 0)
		lifetime->watch = lifetime_await(lifetime);
	if (r == 0 && !lifetime->watch)
		r = refuse(refusal, ENOMEM, "no memory in the broker");
	if (r < 0) {
		free(take_ptr(lifetime->key));
		lifetime_free(lifetime);
		return r;
	}
	HASH_ADD_KEYPTR(hh, broker->lifetimes->by_key, lifetime->key, strlen(key),
			lifetime);
	lifetime->n_refs++; /* the reaper's */
	*ret = lifetime;
	return 0;
}

int lifetime_get(struct broker *broker, const struct lifetime_of *of, bool may_wait,
		 struct lifetime **ret_lifetime, struct refusal *refusal)
{
	const pid_t process = process_of_thread(of->thread);
	struct registry *registry = broker->registry;
	struct lifetime *lifetime = NULL;
	char key[CGROUP_PATH_MAX + 32];
	uint32_t record;
	int fd, r = 0;

	if (of->kind == LIFETIME_EXIT)
		snprintf(key, sizeof(key), "%u %d", of->user->uid, process);
	else
		snprintf(key, sizeof(key), "%u %s", of->user->uid,
			 of->cgroup ? of->cgroup : "");
	pthread_mutex_lock(&registry->lock);
	lifetime = lifetime_find(broker, key);
	pthread_mutex_unlock(&registry->lock);
	if (!lifetime) {
		fd = lifetime_open(broker, of, process, may_wait, refusal);
		if (fd < 0)
			return fd;
		r = kept_add(broker->memory, RECORD_LIFETIME, fd, &record);
		pthread_mutex_lock(&registry->lock);
		/* Another line of the process may have been faster. */
		lifetime = r == 0 ? lifetime_find(broker, key) : NULL;
		if (r < 0 || lifetime)
			lifetime_close(broker, of->user->uid, fd, record, NULL);
		else
			r = lifetime_watch(broker, of->kind, key, fd, record, of->user,
					   &lifetime, refusal);
		pthread_mutex_unlock(&registry->lock);
	}
	if (r == 0)
		*ret_lifetime = lifetime;
	return r;
}

/* Of two with a key one has ended: the pid or the path came again. */
static void lifetime_list(struct lifetime *lifetime)
{
	struct lifetimes *lifetimes = lifetime->broker->lifetimes;
	struct lifetime *other;

	HASH_FIND_STR(lifetimes->by_key, lifetime->key, other);
	if (other)
		free(take_ptr(lifetime->key));
	else
		HASH_ADD_KEYPTR(hh, lifetimes->by_key, lifetime->key,
				strlen(lifetime->key), lifetime);
}

struct lifetime *lifetime_restore(struct broker *broker, uint32_t index,
				  const struct lifetime_record *record, int fd)
{
	struct lifetime *lifetime = lifetime_new(broker);
	_cleanup_text_ struct text key = TEXT_INIT;

	record_text_show(broker->registry->records, record->key, &key);
	if (!lifetime || text_failed(&key)) {
		close(fd);
		free(lifetime);
		return NULL;
	}
	lifetime->kind = (enum lifetime_kind)record->kind;
	lifetime->fd = fd;
	lifetime->uid = record->uid;
	lifetime->record = index;
	lifetime->payer = owner_make(broker->registry, record->uid);
	lifetime->key = take_ptr(key.data);
	/* On failure the process ends: nothing is freed here. */
	if (!lifetime->payer)
		return NULL;
	share_restore(lifetime->payer, SHARE_DESCRIPTORS, 1);
	lifetime_list(lifetime);
	return lifetime;
}

int lifetime_begin(struct lifetime *lifetime)
{
	lifetime->watch = lifetime_await(lifetime);
	if (!lifetime->watch)
		return -ENOMEM;
	lifetime->n_refs++; /* the reaper's */
	lifetime_unref(lifetime);
	return 0;
}

/* ---- all of a cgroup ---- */

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
