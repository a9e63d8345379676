/* SPDX-License-Identifier: MIT */
/*
 * chmod, chgrp and chown.
 *
 * A change waits for nothing: it comes from a call during which the kernel holds locks of
 * the file and its folder. The new permissions count for every check from then on.
 *
 * An allocation in a shared block stays there until somebody else needs it (move.h). Its
 * owner is charged for a block of its own when the mode opens: the uses of others must
 * not use up the owner's limit.
 *
 * Workers of other owners map memory with the permissions of that time. A worker whose
 * owner's rights have changed loses the memory (withdrawal.h).
 *
 * Ops of users who have lost their rights, and which wait, are turned away at once
 * (shut_off.h).
 *
 * With a new owner (hand_on.h) the worker of the old one is a guest, whose rights have
 * changed; and what the new owner's worker has mapped as a guest is taken away, since an
 * owner's worker has its own record of the mapping. All that changes is saved at once: a
 * caller whose call ends with the broker finds all of it, or nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/handle_table.h"
#include "base/refusal.h"
#include "memops/data.h"
#include "memops/give_back.h"
#include "memops/hand_on.h"
#include "memops/lifetime.h"
#include "memops/move.h"
#include "memops/permissions.h"
#include "memops/shut_off.h"
#include "memops/withdrawal.h"
#include "memory/block.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "model/save_module.h"
#include "op/op.h"
#include "process/checkpoint.h"
#include "process/orphans.h"
#include "process/processes.h"

struct rights {
	struct owner *owner;
	uint16_t mode;
	gid_t gid;
};

static struct rights rights_of(const struct allocation *allocation)
{
	return (struct rights){ allocation->owner, allocation->mode, allocation->gid };
}

/* All but the owner (hand_on.h). */
static void rights_set(struct allocation *allocation, struct rights rights)
{
	allocation->mode = rights.mode;
	allocation->gid = rights.gid;
}

/* ---- guests ---- */

/* A change of an allocation's rights. */
struct revision {
	uint64_t number; /* in worker->revision of the workers looked at */
	struct broker *broker;
	struct allocation *allocation;
	bool seals; /* the rights stay, but guests may not write any more */
	struct rights before;
	struct lifetime_member *former_lifetime; /* with a new owner; NULL: none */
	struct block *former_block; /* with a cell to give back; NULL: none */
	uint32_t former_cell;
	struct op *ready;
};

/*
 * The worker may have the memory by the rights of the group, or of others; or before a
 * seal, for writing.
 */
static bool guest_is_concerned(const struct revision *revision, struct worker *worker)
{
	const struct rights before = revision->before;
	const struct allocation *allocation = revision->allocation;

	if (worker->owner->uid == 0)
		return false;
	/* A process that was given up may have had the memory for writing. */
	if (revision->seals)
		return !worker_is_reader(worker, allocation->block) ||
		       checkpoint_lives(worker);
	return worker->owner == before.owner || before.gid != allocation->gid ||
	       (before.mode ^ allocation->mode) & 066;
}

/*
 * Takes the memory away from another owner's worker if the rights of its owner have
 * changed. Thousands of its kernels may have begun: looks once. Returns: 0; -ENOMEM.
 */
static int guest_revise(struct revision *revision, struct worker *worker)
{
	if (worker->revision == revision->number)
		return 0;
	worker->revision = revision->number;
	if (worker->owner == revision->allocation->owner ||
	    !guest_is_concerned(revision, worker))
		return 0;
	if (withdrawal_is_queued(revision->allocation, worker, revision->seals))
		return 0;
	return withdrawal_add(revision->broker, revision->allocation, worker, NULL,
			      revision->seals, &revision->ready);
}

/*
 * Takes the memory away from workers that have the memory mapped, perhaps in a process
 * that was given up and lives, and from workers that are mapping the memory for a kernel
 * that has begun. Returns: 0; -ENOMEM. Under registry.lock.
 */
static int guests_revise(struct revision *revision)
{
	struct allocation *allocation = revision->allocation;
	struct memory *memory = revision->broker->memory;
	_cleanup_free_ const void **guests = NULL;
	int n = block_guests(memory, allocation->block, &guests), r = MIN(n, 0);
	const struct use *use;

	for (int i = 0; i < n && r == 0; i++) {
		struct worker *worker = (struct worker *)guests[i];

		if (worker_is_guest(worker, allocation->block) ||
		    checkpoint_lives(worker))
			r = guest_revise(revision, worker);
	}
	for (use = allocation->all_uses; r == 0 && use; use = use->next_of_all) {
		if (work_has_begun(use->work))
			r = guest_revise(
				revision,
				container_of(use->work, struct op, work)->worker);
	}
	return r;
}

int guests_seal(struct broker *broker, struct allocation *allocation, struct op **ready)
{
	struct revision revision = {
		.number = ++broker->processes->n_revisions,
		.broker = broker,
		.allocation = allocation,
		.seals = true,
	};
	int r = allocation->block ? guests_revise(&revision) : 0;

	if (r == 0)
		r = withdrawals_seal(broker, allocation, &revision.ready);
	op_push_all(ready, revision.ready);
	return r;
}

int guest_use(struct op *op, struct use *use, const struct caller *caller,
	      struct op **ready, struct refusal *refusal)
{
	const struct allocation *allocation = use->allocation;

	/* Nothing is closed to root. */
	if (op->owner == allocation->owner || op->owner->uid == 0)
		return 0;
	use->places |= allocation->rare->withdrawals != NULL;
	return move_out(op->broker, use, caller, ready, refusal);
}

/*
 * As the payer was judged, unless the owner is another, or the allocation has another
 * group since.
 */
static bool use_may(const struct op *op, const struct owner *owner, const struct use *use,
		    enum access access)
{
	const struct caller caller = {
		.uid = owner->uid,
		.gid = use->member ? use->group : GROUP_UNKNOWN,
	};

	return use->judged && owner == op->payer && use->group == use->allocation->gid
		       ? caller_may(&caller, use->allocation, access)
		       : owner_may(owner, use->allocation, access);
}

bool guest_may_write(const struct op *op, const struct use *use)
{
	return use_may(op, op->owner, use, ACCESS_WRITE) &&
	       (!use->allocation->sealed || use->write);
}

/* Nothing would take the memory, mapped for writing, from the worker afterwards. */
bool guest_comes_after_seal(const struct op *op, const struct use *use)
{
	return use->allocation->sealed && use->write && !work_has_begun(&op->work) &&
	       op->owner != use->allocation->owner && op->owner->uid != 0;
}

bool guest_may_use(const struct op *op, const struct use *use)
{
	if (guest_comes_after_seal(op, use) ||
	    (use->guest_writes && !guest_may_write(op, use)))
		return false;
	return use_may(op, op->owner, use, use->write ? ACCESS_WRITE : ACCESS_READ);
}

bool guest_may_ask(const struct op *op, const struct use *use)
{
	return use_may(op, op->payer, use,
		       use->write || use->places ? ACCESS_WRITE : ACCESS_READ);
}

bool guest_shares_block(const struct op *op, const struct allocation *allocation)
{
	return op->owner != allocation->owner && op->owner->uid != 0 &&
	       allocation_shares_block(allocation);
}

/* ---- changes ---- */

static int change_refuse(struct broker *broker, const struct caller *caller,
			 enum object_type type, const char *name,
			 const struct refusal *refusal)
{
	char file[FULL_NAME_MAX + 64];

	snprintf(file, sizeof(file), "%s/%s", object_folder(type), name);
	journal_fail(broker->journal, caller->uid, caller->pid, file, refusal->error,
		     refusal->sentence);
	return -refusal->error;
}

/* Returns: 0; -ESTALE; -EPERM with a refusal. Under registry.lock. */
static int change_module(struct broker *broker, struct module *module,
			 const struct caller *caller, mode_t mode, uid_t uid, gid_t gid,
			 struct refusal *refusal)
{
	if (caller->uid != 0 && caller->uid != module->owner->uid)
		return refuse(refusal, EPERM, "only the owner and root may change it");
	if (uid != (uid_t)-1 && uid != module->owner->uid)
		return refuse(refusal, EPERM, "a module keeps its owner");
	/*
	 * Writing an image means running code as its owner, so w is for the owner alone.
	 */
	if (mode != (mode_t)-1)
		module->mode = mode & 0644;
	if (mode != (mode_t)-1)
		module->folder_mode = (uint16_t)((mode & 0666) | (mode & 0444) >> 2);
	if (gid != (gid_t)-1)
		module->gid = gid;
	module_save(module);
	journal_event_by(broker->journal, caller, "change modules/%s mode=%04o gid=%u",
			 module_name(module).text, module->mode, module->gid);
	return 0;
}

/* Changes a module, found by any of its files or of its functions' files. */
static int change_module_of(struct broker *broker, enum object_type type,
			    struct token token, const struct caller *caller, mode_t mode,
			    uid_t uid, gid_t gid)
{
	char name[FULL_NAME_MAX + 1] = "?";
	struct module *module = NULL;
	struct function *function;
	struct refusal refusal;
	int r = -ESTALE;

	pthread_mutex_lock(&broker->registry->lock);
	if (type == OBJECT_FUNCTION) {
		function = function_get(broker->registry, token.slot, token.generation);
		module = function ? function->image->module : NULL;
	} else {
		module = module_get(broker->registry, token);
	}
	if (module) {
		strcpy(name, module_name(module).text);
		r = change_module(broker, module, caller, mode, uid, gid, &refusal);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	return r == -EPERM ? change_refuse(broker, caller, OBJECT_MODULE, name, &refusal)
			   : r;
}

/* Whether somebody may have less than before. */
static bool rights_shrink(const struct rights *before, const struct rights *after)
{
	return before->owner != after->owner || before->gid != after->gid ||
	       before->mode & ~after->mode;
}

/* Undoes rights_hand_on(), too. */
static void change_undo(struct revision *revision)
{
	struct allocation *allocation = revision->allocation;

	rights_set(allocation, revision->before);
	lifetime_put_back(take_ptr(revision->former_lifetime));
	if (allocation->owner != revision->before.owner)
		hand_back(revision->broker, allocation, revision->before.owner);
}

/* Returns: 0; -EDQUOT, -EMFILE, -ENOMEM with a refusal, and no right is changed. */
static int change_rights(struct revision *revision, struct rights rights,
			 struct refusal *refusal)
{
	struct allocation *allocation = revision->allocation;
	int r = 0;

	if (rights.mode & 066)
		r = move_charge(revision->broker, allocation, refusal);
	if (r < 0)
		return r;
	orphans_note_change(revision->broker, allocation);
	rights_set(allocation, rights);
	if ((rights_shrink(&revision->before, &rights) &&
	     guests_turn_away(allocation, &revision->ready) < 0) ||
	    (allocation->block && guests_revise(revision) < 0)) {
		change_undo(revision);
		r = refuse(refusal, ENOMEM, "no memory in the broker");
	}
	move_charge_settle(revision->broker, allocation);
	allocation->handed_on = false;
	allocation_save(allocation);
	lifetime_member_end(take_ptr(revision->former_lifetime));
	return r;
}

/* Returns: 0; -EPERM with a refusal. */
static int change_check(const struct caller *caller, const struct allocation *allocation,
			uid_t uid, struct refusal *refusal)
{
	if (!caller_may(caller, allocation, ACCESS_OWN))
		return refuse(refusal, EPERM, "only the owner and root may change it");
	if (uid == (uid_t)-1 || uid == allocation->owner->uid)
		return 0;
	if (caller->uid != 0)
		return refuse(refusal, EPERM,
			      "only root may give an allocation another owner");
	return hand_on_check(allocation, refusal);
}

/* Takes away what the new owner's worker has as a guest. Returns: 0; -ENOMEM. */
static int owner_revise(struct revision *revision, struct owner *owner)
{
	struct worker *worker = owner->worker;
	struct block *block = revision->allocation->block;

	if (!worker || !block_guest(revision->broker->memory, block, worker, NULL))
		return 0;
	if (!worker_is_guest(worker, block) && !checkpoint_lives(worker))
		return 0;
	return withdrawal_add(revision->broker, revision->allocation, worker, NULL, false,
			      &revision->ready);
}

/*
 * Hands the allocation on with its new rights, in one group of the records. Returns: as
 * hand_on().
 */
static int rights_hand_on(struct revision *revision, const struct rights *rights,
			  struct owner *to, struct refusal *refusal)
{
	struct allocation *allocation = revision->allocation;
	int r;

	/* The old owner's program or cgroup must not end the new owner's memory. */
	revision->former_lifetime = lifetime_take(allocation);
	rights_set(allocation, *rights);
	allocation->handed_on = true;
	r = hand_on(revision->broker, allocation, to, refusal);
	if (r == 0)
		return 0;
	allocation->handed_on = false;
	change_undo(revision);
	return r;
}

/* Returns: 0; -EDQUOT, -EMFILE, -ENOMEM with a refusal, and nothing is changed. */
static int change_owner(struct revision *revision, uid_t uid, struct rights *rights,
			struct refusal *refusal)
{
	struct owner *to;
	int r;

	if (uid == (uid_t)-1 || uid == rights->owner->uid)
		return 0;
	to = owner_make(revision->broker->registry, uid);
	if (!to || owner_revise(revision, to) < 0)
		return refuse(refusal, ENOMEM, "no memory in the broker");
	r = rights_hand_on(revision, rights, to, refusal);
	if (r < 0)
		return r;
	rights->owner = to;
	/* Nobody reads there any more (hand_on_check()), and the slab is not `to`'s. */
	if (revision->allocation->rare->former_block) {
		revision->former_block =
			take_ptr(revision->allocation->rare->former_block);
		revision->former_cell = revision->allocation->rare->former_cell;
	}
	return 0;
}

/* The event, under registry.lock. */
static void change_tell(const struct revision *revision, const struct caller *caller)
{
	const struct allocation *allocation = revision->allocation;
	char owner[32] = "";

	if (allocation->owner != revision->before.owner)
		snprintf(owner, sizeof(owner), " owner=%u", allocation->owner->uid);
	journal_event_by(revision->broker->journal, caller,
			 "change allocations/%s mode=%04o gid=%u%s",
			 allocation_name(allocation).text, allocation->mode,
			 allocation->gid, owner);
}

static int change_allocation(struct broker *broker, struct token token,
			     const struct caller *caller, mode_t mode, uid_t uid,
			     gid_t gid)
{
	struct revision revision = { .broker = broker };
	char name[FULL_NAME_MAX + 1];
	struct allocation *allocation;
	struct refusal refusal;
	struct rights rights;
	int r;

	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	if (!allocation) {
		pthread_mutex_unlock(&broker->registry->lock);
		return -ESTALE;
	}
	strcpy(name, allocation_name(allocation).text);
	revision.number = ++broker->processes->n_revisions;
	revision.allocation = allocation;
	revision.before = rights = rights_of(allocation);
	/* x follows r, so only r and w are kept. */
	if (mode != (mode_t)-1)
		rights.mode = (uint16_t)(mode & 0666);
	if (gid != (gid_t)-1)
		rights.gid = gid;
	r = change_check(caller, allocation, uid, &refusal);
	if (r == 0)
		r = change_owner(&revision, uid, &rights, &refusal);
	if (r == 0)
		r = change_rights(&revision, rights, &refusal);
	if (r == 0)
		change_tell(&revision, caller);
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(revision.ready);
	if (revision.former_block)
		cell_give_back(broker, revision.before.owner, revision.former_block,
			       revision.former_cell);
	return r < 0 ? change_refuse(broker, caller, OBJECT_ALLOCATION, name, &refusal)
		     : 0;
}

int broker_change(struct broker *broker, enum object_type type, struct token token,
		  const struct caller *caller, mode_t mode, uid_t uid, gid_t gid)
{
	static const struct refusal without_mode = {
		EPERM, "only allocations and modules have a mode that can be changed"
	};

	if (type == OBJECT_MODULE || type == OBJECT_FUNCTION)
		return change_module_of(broker, type, token, caller, mode, uid, gid);
	if (type == OBJECT_ALLOCATION)
		return change_allocation(broker, token, caller, mode, uid, gid);
	return change_refuse(broker, caller, type, "", &without_mode);
}
