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
#include "base/subordinates.h"
#include "base/text.h"
#include "base/workqueue.h"
#include "memops/lease.h"
#include "memops/lifetime_open.h"
#include "memops/lifetime_target.h"
#include "memops/release.h"
#include "memory/kept.h"
#include "model/access.h"
#include "model/allocation.h"
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
	struct task end;  /* closes fd, unless a line has come meanwhile */
	bool ending;	  /* the task is under way */

	/* Of processes and cgroups. */
	char *key; /* UID PID or UID CGROUP, in lifetimes.by_key; NULL: left */
	struct lifetime_target *target; /* the PID or CGROUP */
	int fd;				/* pidfd, or cgroup.events; -1: none */
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

/* Returns: for kept_end(). */
static struct keep_key lifetime_unrecord(const struct lifetime *lifetime)
{
	const struct broker *broker = lifetime->broker;
	struct records *records = broker->registry->records;
	const struct lifetime_record *saved =
		records_get(records, RECORD_LIFETIME, lifetime->record);
	uint32_t key = saved ? saved->key : 0;
	struct keep_key kept =
		kept_unrecord(broker->memory, RECORD_LIFETIME, lifetime->record);

	record_text_drop(records, key);
	return kept;
}

/*
 * Whether the lifetime goes on: a line has come since the last reference went, or the
 * reaper is about to end it. Else the table and the reaper have it no more.
 */
static bool lifetime_goes_on(struct lifetime *lifetime)
{
	if (lifetime->n_refs == 1 && lifetime->watch &&
	    reaper_remove(&lifetime->broker->leases->reaper, lifetime->watch))
		lifetime->n_refs--;
	if (!lifetime->n_refs)
		lifetime_forget(lifetime);
	return lifetime->n_refs > 0;
}

static void lifetime_close(struct task *task)
{
	struct lifetime *lifetime = container_of(task, struct lifetime, end);
	struct broker *broker = lifetime->broker;
	struct registry *registry = broker->registry;
	struct keep_key kept;
	bool goes_on;

	pthread_mutex_lock(&registry->lock);
	lifetime->ending = false;
	goes_on = lifetime_goes_on(lifetime);
	if (goes_on)
		registry_less_busy(registry);
	else
		kept = lifetime_unrecord(lifetime);
	pthread_mutex_unlock(&registry->lock);
	if (goes_on)
		return;
	kept_end(broker->memory, kept);
	closep(&lifetime->fd);
	pthread_mutex_lock(&registry->lock);
	share_give(lifetime->payer, SHARE_DESCRIPTORS, 1);
	lifetime_target_put(broker->lifetimes, lifetime->target);
	registry_less_busy(registry);
	pthread_mutex_unlock(&registry->lock);
	free(lifetime);
}

/* A process or a cgroup has no more than one close under way for each user. */
static void lifetime_close_later(struct lifetime *lifetime)
{
	if (lifetime->ending)
		return;
	lifetime->ending = true;
	lifetime->end.run = lifetime_close;
	lifetime->broker->registry->n_busy++;
	user_lane_add(lifetime->broker, LANE_CLOSES, lifetime->payer->uid,
		      &lifetime->end);
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
	lifetime->n_refs--;
	if (lifetime->fd >= 0 && lifetime->n_refs <= (lifetime->watch ? 1U : 0U))
		lifetime_close_later(lifetime);
	else if (!lifetime->n_refs)
		free(lifetime);
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

struct lifetime_member *lifetime_take(struct allocation *allocation)
{
	struct lifetime_member *member = allocation->rare->lifetime;

	/* Allocations without rare fields share these, which nobody writes. */
	if (member)
		allocation->rare->lifetime = NULL;
	return member;
}

void lifetime_put_back(struct lifetime_member *member)
{
	if (member)
		member->allocation->rare->lifetime = member;
}

void lifetime_member_end(struct lifetime_member *member)
{
	if (!member)
		return;
	if (!member->record)
		crash_let_go();
	DL_DELETE(member->lifetime->members, member);
	lifetime_unref(member->lifetime);
	free(member);
}

void lifetime_leave(struct allocation *allocation)
{
	struct lifetime_member *member = lifetime_take(allocation);

	if (!member)
		return;
	/* No record may name the record of a freed lifetime. */
	allocation_save(allocation);
	lifetime_member_end(member);
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

/* Returns: 0, with the payer; -errno with a sentence. Under registry.lock. */
static int lifetime_charge(const struct broker *broker, const struct lifetime_of *of,
			   struct owner **ret_payer, struct refusal *refusal)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct owner *payer = owner_get(broker->registry, of->user->uid, of->user->gid);
	int r = payer ? share_take(payer, SHARE_DESCRIPTORS, 1) : -ENOMEM;

	*ret_payer = payer;
	if (r < 0 && payer)
		share_explain(payer, &why);
	return r == 0 ? 0
		      : refuse(refusal, -r, "until=%s: %s", words[of->kind],
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

/* The payer, or the range of subordinate uids that the payer belongs to. */
static uint64_t user_of(const struct lifetime *lifetime)
{
	return subordinates_user(lifetime->broker->registry->subordinates,
				 lifetime->payer->uid);
}

static const char *target_of(const char *key)
{
	return strchr(key, ' ') + 1;
}

/*
 * Puts a new lifetime into the table and the reaper. Takes the descriptor, its record and
 * its charge, also on failure: r is an error of before. Under registry.lock.
 */
static int lifetime_watch(struct lifetime *lifetime, const char *key, int r,
			  struct refusal *refusal)
{
	struct broker *broker = lifetime->broker;

	if (r == 0)
		r = lifetime_target_get(broker->lifetimes, user_of(lifetime),
					target_of(key), &lifetime->target, refusal);
	if (r == 0 && (lifetime->key = strdup(key)) && lifetime_save(lifetime) == 0)
		lifetime->watch = lifetime_await(lifetime);
	if (r == 0 && !lifetime->watch)
		r = refuse(refusal, ENOMEM, "no memory in the broker");
	if (r < 0) {
		free(take_ptr(lifetime->key));
		lifetime_unref(lifetime);
		return r;
	}
	HASH_ADD_KEYPTR(hh, broker->lifetimes->by_key, lifetime->key, strlen(key),
			lifetime);
	lifetime->n_refs++; /* the reaper's */
	return 0;
}

/* Charges, opens and watches. No lock held. */
static int lifetime_make(struct broker *broker, const struct lifetime_of *of,
			 const char *key, bool may_wait, struct lifetime **ret,
			 struct refusal *refusal)
{
	_cleanup_free_ struct lifetime *lifetime = lifetime_new(broker);
	struct registry *registry = broker->registry;
	struct lifetime *other = NULL;
	int unfit = -1, r;

	if (!lifetime)
		return refuse(refusal, ENOMEM, "no memory in the broker");
	lifetime->kind = of->kind;
	pthread_mutex_lock(&registry->lock);
	r = lifetime_charge(broker, of, &lifetime->payer, refusal);
	pthread_mutex_unlock(&registry->lock);
	if (r < 0)
		return r;
	r = lifetime_open(broker, of, process_of_thread(of->thread), may_wait, &unfit,
			  refusal);
	lifetime->fd = r >= 0 ? r : unfit;
	if (r >= 0) {
		r = kept_add(broker->memory, RECORD_LIFETIME, lifetime->fd,
			     &lifetime->record);
		if (r < 0)
			r = kept_refuse(r, refusal);
	}
	pthread_mutex_lock(&registry->lock);
	if (lifetime->fd < 0) {
		share_undo(lifetime->payer, SHARE_DESCRIPTORS, 1);
	} else {
		/* Another line of the process may have been faster. */
		other = r == 0 ? lifetime_find(broker, key) : NULL;
		*ret = other ?: lifetime;
		if (other)
			lifetime_unref(take_ptr(lifetime));
		else
			r = lifetime_watch(take_ptr(lifetime), key, r, refusal);
	}
	pthread_mutex_unlock(&registry->lock);
	return r;
}

int lifetime_get(struct broker *broker, const struct lifetime_of *of, bool may_wait,
		 struct lifetime **ret_lifetime, struct refusal *refusal)
{
	struct registry *registry = broker->registry;
	struct lifetime *lifetime;
	char key[CGROUP_PATH_MAX + 32];
	int r = 0;

	if (of->kind == LIFETIME_EXIT)
		snprintf(key, sizeof(key), "%u %d", of->user->uid,
			 process_of_thread(of->thread));
	else
		snprintf(key, sizeof(key), "%u %s", of->user->uid,
			 of->cgroup ? of->cgroup : "");
	pthread_mutex_lock(&registry->lock);
	lifetime = lifetime_find(broker, key);
	pthread_mutex_unlock(&registry->lock);
	if (!lifetime)
		r = lifetime_make(broker, of, key, may_wait, &lifetime, refusal);
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
	lifetime->record = index;
	lifetime->payer = owner_make(broker->registry, record->uid);
	lifetime->key = take_ptr(key.data);
	/* On failure the process ends: nothing is freed here. */
	if (!lifetime->payer ||
	    lifetime_target_restore(broker->lifetimes, user_of(lifetime),
				    target_of(lifetime->key), &lifetime->target) < 0)
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
