/* SPDX-License-Identifier: MIT */
/*
 * chmod and chgrp.
 *
 * Memory that another owner may use never shares a physical block with memory closed to
 * that owner. So when access is granted to an allocation in a shared chunk, the
 * allocation moves to a block of its own at a new address. The GPU copies the bytes. The
 * move is an op that writes the whole allocation, so no other op uses the memory
 * meanwhile. Changes that need the move wait for it, and are made together afterwards, in
 * order. An interrupted change is not made. A change without need of a move is made at
 * once and replaces the waiting changes. A move without waiting changes leaves the order.
 *
 * Workers of other owners map memory with the permissions of that time. After a change
 * the memory is unmapped from all of them, after its last use; the next use maps it
 * again. The permissions of a queued kernel are checked again before the kernel begins.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <utlist.h>

#include "base/descriptor.h"
#include "base/refusal.h"
#include "memops/allocate.h"
#include "memops/data.h"
#include "memops/permissions.h"
#include "memops/release.h"
#include "model/access.h"
#include "op/op.h"
#include "process/checkpoint.h"
#include "process/processes.h"

/* One chmod or chgrp waiting for a move. */
struct change {
	struct waiter waiter;
	struct wait *wait;
	struct room *room; /* until the block is made; then: */
	struct move *move;
	mode_t mode; /* -1: no change, like the next: */
	gid_t gid;
	uid_t uid; /* of the caller */
	pid_t pid;
	struct change *prev, *next;
};

struct move {
	struct op op;
	struct block *block;	/* the new block; after the move the old one */
	uint32_t cell;		/* of the old block */
	struct change *changes; /* waiting changes, in order; registry.lock */
	bool charged;		/* the block is charged to the owner */
};

struct rights {
	uint16_t mode;
	gid_t gid;
};

static void rights_change(struct rights *rights, mode_t mode, gid_t gid)
{
	/* x follows r, so only r and w are kept. */
	if (mode != (mode_t)-1)
		rights->mode = (uint16_t)(mode & 0666);
	if (gid != (gid_t)-1)
		rights->gid = gid;
}

/* The permissions after all waiting changes. Under registry.lock. */
static struct rights rights_coming(const struct allocation *allocation)
{
	struct rights rights = { allocation->mode, allocation->gid };
	const struct change *change;

	if (!allocation->move)
		return rights;
	DL_FOREACH (allocation->move->changes, change)
		rights_change(&rights, change->mode, change->gid);
	return rights;
}

static void rights_set(struct broker *broker, struct allocation *allocation,
		       struct rights rights)
{
	allocation->mode = rights.mode;
	allocation->gid = rights.gid;
	journal_event(&broker->journal, "change allocations/%s mode=%04o gid=%u",
		      allocation->name, rights.mode, rights.gid);
}

/* ---- changes that wait ---- */

/*
 * Removes the changes from the move, which can't be interrupted any more. Under
 * registry.lock.
 */
static struct change *changes_take(struct move *move)
{
	struct change *change;

	DL_FOREACH (move->changes, change)
		change->wait->waiter = NULL;
	return take_ptr(move->changes);
}

static void changes_answer(struct change *changes, int error)
{
	struct change *change, *safe;

	DL_FOREACH_SAFE (changes, change, safe) {
		struct wait *wait = change->wait;

		free(change);
		wait->done(wait, error, NULL, 0);
	}
}

/* ---- the move ---- */

static enum begun move_begin_op(struct op *op)
{
	struct move *move = container_of(op, struct move, op);
	const struct allocation *allocation = op->work.uses[0].allocation;

	if (allocation->kind == KIND_HOST) {
		memcpy(move->block->memory,
		       block_bytes_at(allocation->block, allocation->address),
		       allocation->size);
		return OP_OVER;
	}
	op->ask.request = (struct wire_request){
		.op = WIRE_COPY,
		.device = allocation->device,
		.source_device = allocation->device,
		.address = move->block->address,
		.source = allocation->address,
		.length = allocation->size,
	};
	op->extra_block = move->block;
	return OP_RUN;
}

static void move_settle(struct op *op)
{
	struct move *move = container_of(op, struct move, op);
	struct allocation *allocation = op->work.uses[0].allocation;
	struct block *old = allocation->block;
	struct rights rights = rights_coming(allocation);
	struct change *change;

	allocation->move = NULL;
	DL_FOREACH (move->changes, change)
		change->wait->waiter = NULL;
	if (op->error)
		return;
	move->cell = allocation->cell;
	allocation->block = move->block;
	allocation->address = move->block->address;
	allocation->pointer_generation++;
	allocation->cell = 0;
	move->block = old;
	allocation->has_descriptor = true;
	move->charged = false;
	if (move->changes)
		rights_set(op->broker, allocation, rights);
}

static void move_finish(struct op *op)
{
	struct move *move = container_of(op, struct move, op);
	struct block *block = move->block;
	struct change *change;
	char file[128];

	if (block->chunk)
		block = cell_put(op->owner->pool, block, move->cell);
	if (block)
		block_give_back(op->broker, op->owner, block, NULL, NULL);
	if (move->charged) {
		pthread_mutex_lock(&op->broker->registry.lock);
		share_give(op->owner, SHARE_DESCRIPTORS, 1);
		pthread_mutex_unlock(&op->broker->registry.lock);
	}
	snprintf(file, sizeof(file), "allocations/%s", op->name);
	DL_FOREACH (move->changes, change) {
		if (op->error)
			journal_fail(&op->broker->journal, change->uid, change->pid, file,
				     EIO, text_string(&op->sentence));
	}
	changes_answer(move->changes, op->error ? -EIO : 0);
}

static const struct op_class move_class = {
	.what = "move",
	.begin = move_begin_op,
	.settle = move_settle,
	.repeatable = true,
};

/*
 * Removes a move that has not begun from the order; then call op_left(). Under
 * registry.lock.
 */
static bool move_leave(struct move *move, struct op **ret_ready)
{
	struct allocation *allocation = move->op.work.uses[0].allocation;

	if (!op_leave(&move->op, ret_ready))
		return false;
	allocation->move = NULL;
	return true;
}

/*
 * Begins to move the allocation to that block. Under registry.lock; then call op_start().
 * Returns: 0, and the move owns the block with its share; a negative errno.
 */
static int move_begin(struct broker *broker, struct allocation *allocation,
		      struct block *block, struct op **ret_ready)
{
	struct op *op =
		op_new(sizeof(struct move), &move_class, broker, allocation->owner);
	struct move *move;
	int r;

	if (!op)
		return -ENOMEM;
	move = container_of(op, struct move, op);
	move->block = block;
	move->charged = true;
	op->finish = move_finish;
	op->worker = &broker->processes->mover;
	op->work.may_leave = true;
	work_use(&op->work, allocation, 0, allocation->size, true);
	r = op_add(op, ret_ready);
	if (r < 0)
		op_free(op);
	else
		allocation->move = move;
	return r;
}

/* Drops a change. Without changes left the move is dropped too. */
static void change_interrupt(struct waiter *waiter)
{
	struct change *change = container_of(waiter, struct change, waiter);
	struct move *move = change->move;
	struct broker *broker = move->op.broker;
	struct wait *wait = change->wait;
	struct op *ready = NULL;
	bool left;

	wait->waiter = NULL;
	DL_DELETE(move->changes, change);
	left = !move->changes && move_leave(move, &ready);
	pthread_mutex_unlock(&broker->registry.lock);
	free(change);
	if (left)
		op_left(&move->op, ready);
	wait->done(wait, -EINTR, NULL, 0);
}

/* Adds a change to the move. Under registry.lock. */
static void change_add(struct change *change, struct move *move)
{
	change->move = move;
	change->waiter.interrupt = change_interrupt;
	change->wait->waiter = &change->waiter;
	DL_APPEND(move->changes, change);
}

/* ---- unmapping from guests ---- */

static void withdraw_done(void *userdata)
{
	struct op *op = userdata;

	op_done(op, 0);
}

static void withdraw_run(struct op *op)
{
	block_withdraw(op->broker, op->work.uses[0].allocation->block, withdraw_done, op);
}

static void withdraw_finish(struct op *op)
{
	if (op->wait)
		op->wait->done(op->wait, 0, NULL, 0);
}

static const struct op_class withdraw_class = {
	.what = "change",
	.run = withdraw_run,
	.quiet = true,
};

/* Whether the work runs in the worker of another owner, with the allocation mapped. */
static bool work_is_guests(const struct work *work, const struct allocation *allocation)
{
	const struct worker *worker = container_of(work, struct op, work)->worker;

	return worker && worker->owner && worker->owner != allocation->owner;
}

/*
 * Whether another owner's worker has the allocation mapped, or may map it for a queued
 * op. Under registry.lock.
 */
static bool allocation_has_guests(struct broker *broker,
				  const struct allocation *allocation)
{
	const struct use *use;

	if (!allocation->block)
		return false;
	DL_FOREACH2(allocation->all_uses, use, next_of_all)
	{
		if (work_is_guests(use->work, allocation))
			return true;
	}
	return block_next_guest(&broker->memory, allocation->block, NULL);
}

/*
 * Ends the worker of a kernel that may not use the allocation any more. A kernel still
 * being sent was checked before the chmod; its worker does not answer.
 */
static void guest_end(struct broker *broker, const struct op *op, const struct use *use)
{
	const struct work *work = use->work;

	if (!op->class->kernel || !work_is_guests(work, use->allocation) ||
	    !(work->sent || work->sending) || op->class->kernel->may_use(op, use))
		return;
	rescue_insist(broker, op->worker,
		      work->sent ? op->asked_epoch : worker_epoch(op->worker),
		      "was ended: kernel %s still used allocation %s %g s after that was "
		      "shut off",
		      op->class->kernel->name(op), use->allocation->name,
		      broker->ops->give_back_ms / 1000.0);
}

/*
 * The time limit has passed: ends workers of other owners whose kernels may not use the
 * memory any more.
 */
static void withdraw_passed(struct deadline *deadline)
{
	struct op *op = container_of(deadline, struct op, deadline);
	const struct allocation *allocation = op->work.uses[0].allocation;
	const struct use *use;

	DL_FOREACH2(allocation->all_uses, use, next_of_all)
	{
		if (use->work == &op->work)
			break;
		guest_end(op->broker, container_of(use->work, struct op, work), use);
	}
	/* A kernel may have been on the way to a worker: checks again later. */
	deadline_set(op->broker, deadline, op->broker->ops->give_back_ms,
		     withdraw_passed);
}

/*
 * Returns: 0, and wait is answered when no other owner's worker has the memory mapped; a
 * negative errno. Under registry.lock; then call op_start().
 */
static int withdraw_begin(struct broker *broker, struct allocation *allocation,
			  struct wait *wait, struct op **ret_ready)
{
	struct op *op = op_new(sizeof(*op), &withdraw_class, broker, allocation->owner);
	int r;

	if (!op)
		return -ENOMEM;
	op->finish = withdraw_finish;
	work_use(&op->work, allocation, 0, allocation->size, true);
	op_set_wait(op, wait);
	r = op_add(op, ret_ready);
	if (r < 0) {
		wait->waiter = NULL;
		op_free(op);
		return r;
	}
	deadline_set(broker, &op->deadline, broker->ops->give_back_ms, withdraw_passed);
	return 0;
}

/* ---- changes ---- */

static void change_refuse(struct broker *broker, const struct caller *caller,
			  enum object_type type, const char *name, int error,
			  const char *sentence, struct wait *wait)
{
	char file[128];

	snprintf(file, sizeof(file), "%s/%.64s", object_folder(type), name);
	journal_fail(&broker->journal, caller->uid, caller->pid, file, error, sentence);
	wait->done(wait, -error, NULL, 0);
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
	if (gid != (gid_t)-1)
		module->gid = gid;
	journal_event(&broker->journal, "change modules/%s mode=%04o gid=%u",
		      module->name, module->mode, module->gid);
	return 0;
}

/* Changes a module, found by any of its files or of its functions' files. */
static void change_module_of(struct broker *broker, enum object_type type,
			     struct token token, const struct caller *caller, mode_t mode,
			     uid_t uid, gid_t gid, struct wait *wait)
{
	char name[OBJECT_NAME_MAX + 1] = "?";
	struct module *module = NULL;
	struct function *function;
	struct refusal refusal;
	int r = -ESTALE;

	pthread_mutex_lock(&broker->registry.lock);
	if (type == OBJECT_FUNCTION) {
		function = function_get(&broker->registry, token.slot, token.generation);
		module = function ? function->image->module : NULL;
	} else {
		module = slots_get(&broker->registry.modules, token.slot,
				   token.generation);
	}
	if (module) {
		strcpy(name, module->name);
		r = change_module(broker, module, caller, mode, uid, gid, &refusal);
	}
	pthread_mutex_unlock(&broker->registry.lock);
	if (r == -EPERM)
		change_refuse(broker, caller, OBJECT_MODULE, name, EPERM,
			      refusal.sentence, wait);
	else
		wait->done(wait, r, NULL, 0);
}

/*
 * Makes the change now and answers the waiting changes, which are overtaken: as if they
 * had been made just before. With registry.lock held; releases the lock.
 */
static void change_at_once(struct broker *broker, struct allocation *allocation,
			   struct rights rights, struct wait *wait)
{
	struct op *withdrawing = NULL, *ready = NULL;
	struct move *move = allocation->move;
	struct change *overtaken = NULL;
	bool waits, left = false;
	int r = 0;

	waits = allocation_has_guests(broker, allocation);
	if (waits)
		r = withdraw_begin(broker, allocation, wait, &withdrawing);
	if (r == 0)
		rights_set(broker, allocation, rights);
	if (r == 0 && move) {
		overtaken = changes_take(move);
		left = move_leave(move, &ready);
	}
	pthread_mutex_unlock(&broker->registry.lock);
	if (left)
		op_left(&move->op, ready);
	changes_answer(overtaken, 0);
	op_start(withdrawing);
	if (r < 0 || !waits)
		wait->done(wait, r, NULL, 0);
}

static bool change_needs_move(const struct allocation *allocation, struct rights rights)
{
	return (rights.mode & 066) && allocation->block && allocation->block->chunk;
}

/* A block for a move, made in the crew because of the driver call. */
struct room {
	struct task task;
	struct broker *broker;
	struct token token; /* of the allocation, which may be freed meanwhile */
	struct owner *payer;
	uint32_t place;
	uint64_t size;
	struct change *change; /* NULL: interrupted. registry.lock */
};

static void room_interrupt(struct waiter *waiter)
{
	struct change *change = container_of(waiter, struct change, waiter);
	struct broker *broker = change->room->broker;
	struct wait *wait = change->wait;

	wait->waiter = NULL;
	change->room->change = NULL;
	pthread_mutex_unlock(&broker->registry.lock);
	free(change);
	wait->done(wait, -EINTR, NULL, 0);
}

static void change_fail(struct broker *broker, struct change *change, const char *name,
			int error, const char *sentence)
{
	const struct caller caller = { .uid = change->uid, .pid = change->pid };
	struct wait *wait = change->wait;

	free(change);
	change_refuse(broker, &caller, OBJECT_ALLOCATION, name, error, sentence, wait);
}

/*
 * Adds the change to a move, or makes it now if the allocation moved meanwhile. With
 * registry.lock held; releases the lock. Returns: whether the move took the block.
 */
static bool change_with_block(struct broker *broker, struct allocation *allocation,
			      struct change *change, struct block *block)
{
	struct wait *wait = change->wait;
	struct op *ready = NULL;
	struct rights rights;
	bool moves = !allocation->move && allocation->block->chunk;
	int r = moves ? move_begin(broker, allocation, block, &ready) : 0;

	if (r == 0 && allocation->move) {
		change_add(change, allocation->move);
		pthread_mutex_unlock(&broker->registry.lock);
		op_start(ready);
		return moves;
	}
	rights = rights_coming(allocation);
	rights_change(&rights, change->mode, change->gid);
	free(change);
	if (r == 0) {
		change_at_once(broker, allocation, rights, wait);
	} else {
		pthread_mutex_unlock(&broker->registry.lock);
		wait->done(wait, r, NULL, 0);
	}
	return false;
}

/* Called whether or not the block could be made. */
static void room_end(struct room *room, struct block *block)
{
	struct broker *broker = room->broker;

	if (block)
		(void)block_free(&broker->memory, block, NULL);
	pthread_mutex_lock(&broker->registry.lock);
	/* The move took the share with the block. */
	if (room->payer)
		share_give(room->payer, SHARE_DESCRIPTORS, 1);
	registry_less_busy(&broker->registry);
	pthread_mutex_unlock(&broker->registry.lock);
	free(room);
}

static void room_make(struct task *task)
{
	struct room *room = container_of(task, struct room, task);
	struct broker *broker = room->broker;
	struct block *block = NULL;
	struct allocation *allocation;
	char name[OBJECT_NAME_MAX + 1] = "?";
	struct change *change;
	int r;

	r = block_new(&block, &broker->memory, room->place, room->size, NULL);
	pthread_mutex_lock(&broker->registry.lock);
	allocation = allocation_get(&broker->registry, room->token.slot,
				    room->token.generation);
	change = room->change;
	if (change)
		change->wait->waiter = NULL;
	if (allocation)
		strcpy(name, allocation->name);
	if (r == 0 && allocation && change) {
		if (change_with_block(broker, allocation, change, block)) {
			room->payer = NULL;
			block = NULL;
		}
	} else {
		pthread_mutex_unlock(&broker->registry.lock);
		if (change && r == 0)
			change_fail(broker, change, name, ESTALE, "it has been freed");
		else if (change)
			change_fail(broker, change, name, -r,
				    r == -EMFILE ? DESCRIPTORS_GONE
						 : "no memory for it to stand alone");
	}
	room_end(room, block);
}

/* Returns: 0, and the crew makes the block; -EMFILE, -ENOMEM. Under registry.lock. */
static int room_begin(struct broker *broker, const struct allocation *allocation,
		      struct change *change)
{
	struct room *room = calloc(1, sizeof(*room));
	int r;

	if (!room)
		return -ENOMEM;
	r = share_take(allocation->owner, SHARE_DESCRIPTORS, 1);
	if (r < 0) {
		free(room);
		return r;
	}
	*room = (struct room){
		.task.run = room_make,
		.broker = broker,
		.token = { allocation->slot, allocation->slot_generation },
		.payer = allocation->owner,
		.place = allocation_place(allocation),
		.size = allocation->size,
		.change = change,
	};
	change->room = room;
	change->waiter.interrupt = room_interrupt;
	change->wait->waiter = &change->waiter;
	broker->registry.n_busy++;
	crew_add(&broker->crew, change->uid, &room->task);
	return 0;
}

/* With registry.lock held; releases the lock. */
static void change_by_move(struct broker *broker, struct allocation *allocation,
			   struct change *change)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	char name[OBJECT_NAME_MAX + 1];
	int r = 0;

	if (allocation->move)
		change_add(change, allocation->move);
	else
		r = room_begin(broker, allocation, change);
	if (r == -EMFILE)
		share_explain(allocation->owner, SHARE_DESCRIPTORS, 1, &text);
	else if (r < 0)
		text_printf(&text, "no memory in the broker");
	strcpy(name, allocation->name);
	pthread_mutex_unlock(&broker->registry.lock);
	if (r < 0)
		change_fail(broker, change, name, -r, text_string(&text));
}

/*
 * Finds an allocation the caller may change, and takes registry.lock. NULL: the lock is
 * not held and wait is answered.
 */
static struct allocation *change_find(struct broker *broker, struct token token,
				      const struct caller *caller, uid_t uid,
				      struct wait *wait)
{
	struct allocation *allocation;
	char name[OBJECT_NAME_MAX + 1];
	const char *refused = NULL;

	pthread_mutex_lock(&broker->registry.lock);
	allocation = allocation_get(&broker->registry, token.slot, token.generation);
	if (!allocation) {
		pthread_mutex_unlock(&broker->registry.lock);
		wait->done(wait, -ESTALE, NULL, 0);
		return NULL;
	}
	if (!caller_may(caller, allocation, ACCESS_OWN))
		refused = "only the owner and root may change it";
	else if (uid != (uid_t)-1 && uid != allocation->owner->uid)
		refused = "an allocation keeps its owner";
	if (!refused)
		return allocation;
	strcpy(name, allocation->name);
	pthread_mutex_unlock(&broker->registry.lock);
	change_refuse(broker, caller, OBJECT_ALLOCATION, name, EPERM, refused, wait);
	return NULL;
}

/* With registry.lock held; releases the lock. */
static void change_when_moved(struct broker *broker, struct allocation *allocation,
			      const struct caller *caller, mode_t mode, gid_t gid,
			      struct wait *wait)
{
	struct change *change = calloc(1, sizeof(*change));

	if (!change) {
		pthread_mutex_unlock(&broker->registry.lock);
		wait->done(wait, -ENOMEM, NULL, 0);
		return;
	}
	change->wait = wait;
	change->mode = mode;
	change->gid = gid;
	change->uid = caller->uid;
	change->pid = caller->pid;
	change_by_move(broker, allocation, change);
}

void allocation_move_out(struct broker *broker, struct allocation *allocation,
			 const struct caller *caller, struct wait *wait)
{
	change_when_moved(broker, allocation, caller, (mode_t)-1, (gid_t)-1, wait);
}

static void change_allocation(struct broker *broker, struct token token,
			      const struct caller *caller, mode_t mode, uid_t uid,
			      gid_t gid, struct wait *wait)
{
	struct allocation *allocation = change_find(broker, token, caller, uid, wait);
	struct rights rights;

	if (!allocation)
		return;
	rights = rights_coming(allocation);
	rights_change(&rights, mode, gid);
	if (change_needs_move(allocation, rights))
		change_when_moved(broker, allocation, caller, mode, gid, wait);
	else
		change_at_once(broker, allocation, rights, wait);
}

void broker_change(struct broker *broker, enum object_type type, struct token token,
		   const struct caller *caller, mode_t mode, uid_t uid, gid_t gid,
		   struct wait *wait)
{
	wait->waiter = NULL;
	if (type == OBJECT_MODULE || type == OBJECT_FUNCTION)
		change_module_of(broker, type, token, caller, mode, uid, gid, wait);
	else if (type == OBJECT_ALLOCATION)
		change_allocation(broker, token, caller, mode, uid, gid, wait);
	else
		change_refuse(broker, caller, type, "", EPERM,
			      "only allocations and modules have a mode that can be "
			      "changed",
			      wait);
}
