/* SPDX-License-Identifier: MIT */
/*
 * chmod and chgrp.
 *
 * What another owner may use never shares physical memory with what he may not. So when
 * the mode of an allocation that stands in a shared chunk is opened, it moves: to a block
 * of its own, its bytes copied by the GPU, at a new address. The move is an op that
 * writes all of the allocation: nothing uses it meanwhile.
 *
 * What others were let use is mapped in their workers as the mode was then. When it
 * changes it is taken from all of them, after its last use; the next one has it mapped
 * anew.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/verbs.h"

struct move {
	struct op op;
	struct block *block; /* the new one; after the move the old one */
	uint32_t cell;	     /* of the old one */
	gid_t gid;
	uint16_t mode;
	pid_t pid;
	uid_t uid;
	char name[NAME_MAX_LENGTH + 1];
};

static void change_apply(struct broker *broker, struct allocation *allocation,
			 uint16_t mode, gid_t gid)
{
	allocation->mode = mode;
	allocation->gid = gid;
	journal_event(&broker->journal, "change allocations/%s mode=%04o gid=%u",
		      allocation->name, mode, gid);
}

/* ---- the move ---- */

static void move_run(struct op *op)
{
	struct move *move = container_of(op, struct move, op);
	const struct allocation *allocation = op->work.uses[0].allocation;

	op->ask.request = (struct wire_request){
		.op = WIRE_COPY,
		.device = allocation->device,
		.source_device = allocation->device,
		.address = move->block->address,
		.source = allocation->address,
		.length = allocation->size,
	};
	op_ask_with(op, move->block);
}

static void move_settle(struct op *op)
{
	struct move *move = container_of(op, struct move, op);
	struct allocation *allocation = op->work.uses[0].allocation;
	struct block *old = allocation->block;

	strcpy(move->name, allocation->name);
	if (op->error)
		return;
	move->cell = allocation->cell;
	allocation->block = move->block;
	allocation->address = move->block->address;
	allocation->pointer_generation++;
	allocation->cell = 0;
	move->block = old;
	change_apply(op->broker, allocation, move->mode, move->gid);
}

static void move_finish(struct op *op)
{
	struct move *move = container_of(op, struct move, op);
	struct wait *wait = op_take_wait(op);
	struct block *block = move->block;
	char file[128];

	if (block->chunk)
		block = cell_put(op->owner->pool, block, move->cell);
	if (block)
		block_give_back(op->broker, op->owner, block, NULL, NULL);
	if (op->error) {
		snprintf(file, sizeof(file), "allocations/%s", move->name);
		journal_fail(&op->broker->journal, move->uid, move->pid, file, EIO,
			     text_string(&op->sentence));
	}
	if (wait)
		wait->done(wait, op->error ? -EIO : 0, NULL, 0);
}

static const struct op_class move_class = {
	.what = "move",
	.run = move_run,
	.settle = move_settle,
	.repeatable = true,
};

/* With the lock held, let go of. */
static void change_by_move(struct broker *broker, struct allocation *allocation,
			   const struct caller *caller, uint16_t mode, gid_t gid,
			   struct wait *wait)
{
	struct token token = { allocation->slot, allocation->slot_generation };
	uint32_t device = allocation->device;
	uint64_t size = allocation->size;
	struct block *block = NULL;
	struct move *move = NULL;
	struct op *op = NULL, *ready = NULL;
	int r;

	pthread_mutex_unlock(&broker->registry.lock);
	r = block_new(&block, &broker->memory, device, size, NULL);
	pthread_mutex_lock(&broker->registry.lock);
	allocation = allocation_get(&broker->registry, token.slot, token.generation);
	if (r == 0 && !allocation)
		r = -ESTALE;
	if (r == 0)
		op = op_new(sizeof(*move), &move_class, broker, allocation->owner);
	if (op) {
		move = container_of(op, struct move, op);
		move->block = block;
		move->mode = mode;
		move->gid = gid;
		move->uid = caller->uid;
		move->pid = caller->pid;
		op->finish = move_finish;
		op->worker = &broker->mover;
		work_use(&op->work, allocation, 0, allocation->size, true);
		op_set_wait(op, wait);
		r = op_add(op, &ready);
		if (r < 0)
			wait->waiter = NULL;
	} else if (r == 0) {
		r = -ENOMEM;
	}
	pthread_mutex_unlock(&broker->registry.lock);
	op_start(ready);
	if (r < 0) {
		op_free(op);
		if (block)
			(void)block_free(&broker->memory, block, NULL);
		wait->done(wait, r, NULL, 0);
	}
}

/* ---- taking it from its guests ---- */

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
	struct wait *wait = op_take_wait(op);

	if (wait)
		wait->done(wait, 0, NULL, 0);
}

static const struct op_class withdraw_class = {
	.what = "change",
	.run = withdraw_run,
	.quiet = true,
};

/* With the lock held, let go of. */
static void change_with_guests(struct broker *broker, struct allocation *allocation,
			       uint16_t mode, gid_t gid, struct wait *wait)
{
	struct op *op = op_new(sizeof(*op), &withdraw_class, broker, allocation->owner);
	struct op *ready = NULL;
	int r = -ENOMEM;

	if (op) {
		op->finish = withdraw_finish;
		work_use(&op->work, allocation, 0, allocation->size, true);
		op_set_wait(op, wait);
		r = op_add(op, &ready);
	}
	if (r == 0)
		change_apply(broker, allocation, mode, gid);
	else
		wait->waiter = NULL;
	pthread_mutex_unlock(&broker->registry.lock);
	op_start(ready);
	if (r < 0) {
		op_free(op);
		wait->done(wait, r, NULL, 0);
	}
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
	/* Whoever can write an image has its owner run it: w is his alone. */
	if (mode != (mode_t)-1)
		module->mode = mode & 0644;
	if (gid != (gid_t)-1)
		module->gid = gid;
	journal_event(&broker->journal, "change modules/%s mode=%04o gid=%u",
		      module->name, module->mode, module->gid);
	return 0;
}

/* Of a module, by any of its files or those of its functions. */
static void change_module_of(struct broker *broker, enum object_type type,
			     struct token token, const struct caller *caller, mode_t mode,
			     uid_t uid, gid_t gid, struct wait *wait)
{
	char name[NAME_MAX_LENGTH + 1] = "?";
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

void broker_change(struct broker *broker, enum object_type type, struct token token,
		   const struct caller *caller, mode_t mode, uid_t uid, gid_t gid,
		   struct wait *wait)
{
	struct allocation *allocation;
	char name[NAME_MAX_LENGTH + 1];
	const char *refused = NULL;
	uint16_t new_mode;

	wait->waiter = NULL;
	if (type == OBJECT_MODULE || type == OBJECT_FUNCTION) {
		change_module_of(broker, type, token, caller, mode, uid, gid, wait);
		return;
	}
	if (type != OBJECT_ALLOCATION) {
		change_refuse(broker, caller, type, "", EPERM,
			      "only allocations and modules have a mode that can be "
			      "changed",
			      wait);
		return;
	}
	pthread_mutex_lock(&broker->registry.lock);
	allocation = allocation_get(&broker->registry, token.slot, token.generation);
	if (!allocation) {
		pthread_mutex_unlock(&broker->registry.lock);
		wait->done(wait, -ESTALE, NULL, 0);
		return;
	}
	strcpy(name, allocation->name);
	if (!caller_may(caller, allocation, ACCESS_OWN))
		refused = "only the owner and root may change it";
	else if (uid != (uid_t)-1 && uid != allocation->owner->uid)
		refused = "an allocation keeps its owner";
	if (refused) {
		pthread_mutex_unlock(&broker->registry.lock);
		change_refuse(broker, caller, type, name, EPERM, refused, wait);
		return;
	}
	/* x follows r, so only r and w are kept. */
	new_mode = mode == (mode_t)-1 ? allocation->mode : (uint16_t)(mode & 0666);
	if (gid == (gid_t)-1)
		gid = allocation->gid;
	if ((new_mode & 066) && allocation->block && allocation->block->chunk) {
		change_by_move(broker, allocation, caller, new_mode, gid, wait);
		return;
	}
	if (allocation->block &&
	    block_next_guest(&broker->memory, allocation->block, NULL)) {
		change_with_guests(broker, allocation, new_mode, gid, wait);
		return;
	}
	change_apply(broker, allocation, new_mode, gid);
	pthread_mutex_unlock(&broker->registry.lock);
	wait->done(wait, 0, NULL, 0);
}
