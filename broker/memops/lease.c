/* SPDX-License-Identifier: MIT */
/*
 * Lifetime of leases: opened and closed by the view, ended with the broker.
 *
 * Leases are reference counted, by the view's descriptor and by each op: an op
 * interrupted by a signal may still be queued after the descriptor is closed.
 */
#include "memops/lease_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <utlist.h>

#include "base/refusal.h"
#include "base/text.h"
#include "memops/lease.h"
#include "memops/lease_file.h"
#include "memops/lease_process.h"
#include "memops/readahead.h"
#include "memops/release.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/object.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "op/op.h"
#include "process/broker.h"
#include "record/records.h"

void leases_init(struct leases *leases, struct broker *broker)
{
	*leases = (struct leases){
		.broker = broker,
		.note = { .run = leases_tell, .length = TASK_LONG },
	};
	reaper_init(&leases->reaper);
}

void leases_deinit(struct leases *leases)
{
	reaper_deinit(&leases->reaper);
}

void lease_unref(struct lease *lease)
{
	if (--lease->n_refs)
		return;
	lease_process_put(lease->process, lease->user);
	explicit_bzero(lease->secret, sizeof(lease->secret));
	free(lease);
}

void lease_fail(struct broker *broker, const struct caller *caller, const char *name,
		int error, const char *sentence)
{
	char file[128];

	snprintf(file, sizeof(file), "allocations/%s/lease", name);
	journal_fail(broker->journal, caller->uid, caller->pid, file, error, sentence);
}

/* ---- counting ---- */

/* Adds to or subtracts from the totals of a leased allocation. */
static void leased_add(struct broker *broker, const struct allocation *allocation,
		       int64_t bytes, int64_t freed_bytes)
{
	struct lease_totals *totals[] = {
		&broker->registry->leased,
		&allocation->owner->leased,
		allocation->kind == KIND_HOST
			? NULL
			: &broker->registry->leased_on[allocation->device],
	};

	for (size_t i = 0; i < ARRAY_SIZE(totals); i++) {
		if (!totals[i])
			continue;
		totals[i]->bytes += (uint64_t)bytes;
		totals[i]->freed_bytes += (uint64_t)freed_bytes;
	}
}

static void leased_count(struct broker *broker, const struct allocation *allocation,
			 bool leased)
{
	int64_t bytes = leased ? (int64_t)allocation->size : -(int64_t)allocation->size;

	leased_add(broker, allocation, bytes,
		   allocation->state == ALLOCATION_FREED ? bytes : 0);
}

/* ---- opening ---- */

static int lease_refuse_kind(const struct allocation *allocation, struct refusal *refusal)
{
	const char *why = allocation->kind == KIND_MANAGED
				  ? "its pages belong to one process"
				  : "it was made in its owner's worker";

	return refuse(refusal, EOPNOTSUPP,
		      "kind=%s can't be leased: %s; copy it to one of kind=device "
		      "(control/copy)",
		      kind_name((enum allocation_kind)allocation->kind), why);
}

/* Returns: 0; -EDQUOT, -EMFILE. */
static int lease_charge(struct owner *user, struct refusal *refusal)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	int r = share_take(user, SHARE_LEASES, 1);

	if (r < 0) {
		share_explain(user, &why);
		return refuse(refusal, -r, "%s", text_string(&why));
	}
	r = share_take(user, SHARE_DESCRIPTORS, 1);
	if (r < 0) {
		share_give(user, SHARE_LEASES, 1);
		share_explain(user, &why);
		return refuse(refusal, -r, "%s", text_string(&why));
	}
	return 0;
}

/*
 * Checks that the caller may have the lease, and charges the lease and its descriptor.
 * Under registry.lock.
 */
static int lease_check(const struct broker *broker, const struct allocation *allocation,
		       const struct caller *caller, struct owner *user, bool write,
		       struct refusal *refusal)
{
	if (broker->registry->shutting_down)
		return refuse(refusal, ESTALE, "the broker is shutting down");
	if (!kind_is_durable((enum allocation_kind)allocation->kind))
		return lease_refuse_kind(allocation, refusal);
	if (!caller_may(caller, allocation, write ? ACCESS_WRITE : ACCESS_READ))
		return refuse(refusal, EACCES, "uid %u may not %s allocation %s",
			      caller->uid, write ? "write" : "read",
			      allocation_name(allocation).text);
	if (write && allocation->sealed)
		return refuse_sealed(refusal, allocation);
	if (allocation->kind == KIND_DEVICE && !allocation->map_readers &&
	    !caller_may(caller, allocation, ACCESS_WRITE))
		return refuse(
			refusal, EACCES,
			"allocation %s has map=writers: the driver can't lend device "
			"memory for reading only, so only who may write it may "
			"lease it (its owner can write readers to `map`)",
			allocation_name(allocation).text);
	return lease_charge(user, refusal);
}

/* Under registry.lock. */
static void lease_link(struct lease *lease, struct allocation *allocation,
		       struct owner *user)
{
	struct broker *broker = lease->broker;

	lease->allocation = allocation;
	lease->user = user;
	HASH_ADD(hh, broker->leases->by_id, id, sizeof(lease->id), lease);
	DL_APPEND(allocation->rare->leases, lease);
	if (allocation->rare->n_leases++ == 0)
		leased_count(broker, allocation, true);
	allocation->rare->n_write_leases += lease->write;
}

/* Under registry.lock. Returns: 0; -ENOMEM with a refusal. */
static int lease_begin(struct lease *lease, struct allocation *allocation,
		       struct owner *user, struct op **ready, struct refusal *refusal)
{
	struct broker *broker = lease->broker;

	if (allocation_make_rare(allocation) < 0 ||
	    records_take(broker->registry->records, RECORD_LEASE, &lease->record) < 0) {
		share_give(user, SHARE_LEASES, 1);
		share_give(user, SHARE_DESCRIPTORS, 1);
		return refuse(refusal, ENOMEM, "no memory in the broker");
	}
	lease->id = ++broker->leases->n_ever;
	lease_link(lease, allocation, user);
	if (lease->write)
		readahead_free(broker, allocation->rare->readahead, ready);
	lease_save(lease);
	journal_event(broker->journal,
		      "lease allocations/%s lease=%llu access=%s uid=%u pid=%d",
		      allocation_name(allocation).text, (unsigned long long)lease->id,
		      lease->write ? "w" : "r", lease->uid, lease->pid);
	return 0;
}

void lease_save(const struct lease *lease)
{
	struct lease_record record;

	if (!lease->allocation || lease->closed)
		return;
	record = (struct lease_record){
		.id = lease->id,
		.since_s = lease->since_s,
		.file = lease->file,
		.allocation = lease->allocation->record,
		.uid = lease->uid,
		.gid = lease->user->gid,
		.pid = lease->pid,
		.unique = lease->unique,
		.write = lease->write,
		.granted = lease->granted,
		.read = !lease->changed,
		.held = lease->held != NULL,
		.poll = lease->poll,
		.node = lease->node,
		.inode = lease->inode,
	};

	memcpy(record.secret, lease->secret, sizeof(record.secret));
	records_save(lease->broker->registry->records, RECORD_LEASE, lease->record,
		     &record);
}

int lease_restore(struct broker *broker, struct allocation *allocation, uint32_t index,
		  const struct lease_record *record)
{
	struct owner *user = owner_make(broker->registry, record->uid);
	struct lease *lease;

	if (!user || allocation_make_rare(allocation) < 0)
		return -ENOMEM;
	lease = calloc(1, sizeof(*lease));
	if (!lease)
		return -ENOMEM;
	lease->broker = broker;
	lease->record = index;
	lease->id = record->id;
	lease->uid = record->uid;
	lease->pid = record->pid;
	lease->process = lease_process_get(broker, lease->pid, lease->uid);
	process_name(lease->pid, lease->comm);
	lease->write = record->write;
	lease->granted = record->granted;
	lease->since_s = record->since_s;
	lease->file = record->file;
	lease->unique = record->unique;
	lease->poll = record->poll;
	lease->node = record->node;
	lease->inode = record->inode;
	/* The hold ended with the last broker. */
	lease->changed = !record->read || record->held;
	lease->n_refs = 1;
	memcpy(lease->secret, record->secret, sizeof(lease->secret));
	share_restore(user, SHARE_LEASES, 1);
	share_take_beyond(user, SHARE_DESCRIPTORS, 1);
	broker->leases->n_ever = MAX(broker->leases->n_ever, lease->id);
	lease_link(lease, allocation, user);
	leases_tell_untold(allocation, lease);
	return 0;
}

struct lease *broker_lease_left(struct broker *broker, struct lease_name *ret_name,
				uid_t *ret_uid)
{
	struct lease *lease;

	pthread_mutex_lock(&broker->registry->lock);
	lease = broker->leases->left ?: broker->leases->by_id;
	while (lease && lease->wake)
		lease = lease->hh.next;
	broker->leases->left = lease;
	pthread_mutex_unlock(&broker->registry->lock);
	if (!lease)
		return NULL;
	*ret_name = (struct lease_name){ lease->file, lease->unique, lease->poll,
					 lease->node, lease->inode };
	*ret_uid = lease->uid;
	return lease;
}

void broker_lease_resume(struct lease *lease, void (*wake)(void *userdata),
			 void *userdata)
{
	pthread_mutex_lock(&lease->broker->registry->lock);
	lease->wake = wake;
	lease->userdata = userdata;
	pthread_mutex_unlock(&lease->broker->registry->lock);
}

static struct lease *lease_new(struct broker *broker, const struct caller *caller,
			       bool write, void (*wake)(void *userdata), void *userdata)
{
	struct lease *lease = calloc(1, sizeof(*lease));

	if (!lease)
		return NULL;
	lease->broker = broker;
	lease->uid = caller->uid;
	lease->write = write;
	lease->wake = wake;
	lease->userdata = userdata;
	lease->since_s = time(NULL);
	lease->n_refs = 1;
	lease->pid = process_of_thread(caller->pid);
	process_name(lease->pid, lease->comm);
	if (getrandom(lease->secret, sizeof(lease->secret), 0) ==
	    (ssize_t)sizeof(lease->secret))
		return lease;
	free(lease);
	return NULL;
}

int broker_lease_open(struct broker *broker, struct token token,
		      const struct caller *caller, bool write, struct lease_name place,
		      void (*wake)(void *userdata), void *userdata,
		      struct lease **ret_lease)
{
	struct lease *lease = lease_new(broker, caller, write, wake, userdata);
	char name[FULL_NAME_MAX + 1] = "?";
	struct allocation *allocation;
	struct op *ready = NULL;
	struct refusal refusal;
	struct owner *user;
	int r;

	if (!lease)
		return -ENOMEM;
	lease->file = place.file;
	lease->unique = place.unique;
	lease->node = place.node;
	lease->inode = place.inode;
	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	user = owner_get(broker->registry, caller->uid, caller->gid);
	if (!allocation || !user) {
		r = refuse(&refusal, allocation ? ENOMEM : ESTALE, "%s",
			   allocation ? "no memory in the broker" : "it has been freed");
	} else {
		strcpy(name, allocation_name(allocation).text);
		r = lease_check(broker, allocation, caller, user, write, &refusal);
	}
	if (r == 0) {
		lease->process = lease_process_get(broker, lease->pid, lease->uid);
		r = lease_begin(lease, allocation, user, &ready, &refusal);
	}
	if (r < 0)
		lease_unref(lease);
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(ready);
	if (r < 0) {
		lease_fail(broker, caller, name, refusal.error, refusal.sentence);
		return r;
	}
	*ret_lease = lease;
	return 0;
}

/* ---- the end of leases ---- */

bool lease_park_release(struct allocation *allocation)
{
	/* At the end of the broker too: leases_end() takes the leases away. */
	allocation->release_parked =
		allocation->rare->leases || allocation->rare->n_departing;
	return allocation->release_parked;
}

void leases_note_freed(struct broker *broker, struct allocation *allocation)
{
	if (allocation->rare->leases)
		leased_add(broker, allocation, 0, (int64_t)allocation->size);
	leases_note_changed(broker, allocation);
}

/*
 * Removes the lease from its allocation. Under registry.lock. Returns: the op of its
 * hold, or NULL.
 */
static struct op *lease_unlink(struct lease *lease)
{
	struct broker *broker = lease->broker;
	struct allocation *allocation = take_ptr(lease->allocation);

	lease_leave_list(lease, true);
	DL_DELETE(allocation->rare->leases, lease);
	share_give(lease->user, SHARE_LEASES, 1);
	if (lease->write) {
		allocation->rare->n_write_leases--;
		allocation_written(allocation);
	}
	allocation_used(allocation);
	if (--allocation->rare->n_leases == 0)
		leased_count(broker, allocation, false);
	return take_ptr(lease->held);
}

/*
 * After a lease has ended: when that was the last of a freed allocation, the memory
 * counts as being reclaimed. Under registry.lock. Returns: the op to resume; NULL: none
 * waits, or not for this lease alone.
 */
static struct op *lease_end_release(struct allocation *allocation)
{
	struct op *release;

	if (allocation->rare->leases || !allocation->release)
		return NULL;
	release = container_of(allocation->release, struct op, work);
	release_count(release);
	return allocation->release_parked && !allocation->rare->n_departing ? release
									    : NULL;
}

void lease_departed(struct lease *lease)
{
	struct broker *broker = lease->broker;
	struct op *release;

	pthread_mutex_lock(&broker->registry->lock);
	lease->departing->rare->n_departing--;
	lease->departing->rare->n_writers_departing -= lease->write;
	release = lease_end_release(lease->departing);
	lease_unref(lease);
	pthread_mutex_unlock(&broker->registry->lock);
	if (release)
		allocation_resume_release(release);
}

struct lease *broker_lease_close(struct lease *lease)
{
	struct op *release = NULL, *held = NULL;
	struct allocation *allocation;
	struct broker *broker;
	bool departs;

	if (!lease)
		return NULL;
	broker = lease->broker;
	departs = lease->process && process_is_ending(lease->pid);
	pthread_mutex_lock(&broker->registry->lock);
	lease->closed = true;
	allocation = lease->allocation;
	if (allocation) {
		journal_event(broker->journal,
			      "unlease allocations/%s lease=%llu uid=%u pid=%d",
			      allocation_name(allocation).text,
			      (unsigned long long)lease->id, lease->uid, lease->pid);
		held = lease_unlink(lease);
		if (departs) {
			allocation->rare->n_departing++;
			allocation->rare->n_writers_departing += lease->write;
		}
		release = lease_end_release(allocation);
	}
	lease_leave_list(lease, false);
	HASH_DEL(broker->leases->by_id, lease);
	records_drop(broker->registry->records, RECORD_LEASE, lease->record);
	lease->departing = departs ? allocation : NULL;
	if (!lease->departing)
		lease_unref(lease);
	pthread_mutex_unlock(&broker->registry->lock);
	if (held)
		op_done(held, 0);
	if (release)
		allocation_resume_release(release);
	if (departs && allocation)
		lease_await_exit(lease);
	return NULL;
}

static void holds_end(struct op *holds)
{
	struct op *held;

	while ((held = holds)) {
		holds = held->next_ready;
		op_done(held, 0);
	}
}

struct ended_holds {
	uid_t uid;
	struct op *holds;
};

static void lease_end_hold(struct lease *lease, void *userdata)
{
	struct ended_holds *ended = userdata;
	struct op *held = lease->uid == ended->uid ? take_ptr(lease->held) : NULL;

	if (!held)
		return;
	lease_save(lease);
	op_push_ready(&ended->holds, held);
}

void leases_end_holds(struct broker *broker, uid_t uid)
{
	struct ended_holds ended = { .uid = uid };

	leases_walk(broker, lease_end_hold, &ended);
	holds_end(ended.holds);
}

void leases_end(struct broker *broker)
{
	struct op *held, *releases = NULL, *holds = NULL;
	struct lease *lease;

	pthread_mutex_lock(&broker->registry->lock);
	for (lease = broker->leases->by_id; lease; lease = lease->hh.next) {
		struct allocation *allocation = lease->allocation;
		struct op *release;

		if (!allocation)
			continue;
		held = lease_unlink(lease);
		if (held)
			op_push_ready(&holds, held);
		release = lease_end_release(allocation);
		if (release)
			op_push_ready(&releases, release);
		lease_notify(lease);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	holds_end(holds);
	while ((held = releases)) {
		releases = held->next_ready;
		allocation_resume_release(held);
	}
	reaper_end(&broker->leases->reaper);
}
