/* SPDX-License-Identifier: MIT */
/*
 * The line of a launch: checked against the kernel, its device and the allocations in the
 * arguments, then queued.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/refusal.h"
#include "control/command.h"
#include "control/launch_line.h"
#include "control/verbs.h"
#include "kernels/launch.h"
#include "memops/permissions.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/range.h"
#include "model/registry.h"
#include "model/stream.h"
#include "op/op.h"
#include "process/broker.h"

/* A launch being checked, and its refusal. */
struct check {
	struct command *command;
	struct launch *launch;
	int found; /* result of finding the kernel */
	struct refusal refusal;
	uint32_t *places; /* a hash table of the uses: find_place() */
	uint32_t mask;	  /* of a place; the size is a power of two */
};

/* Finds the kernel. With registry.lock held. Returns: 0; negative and a refusal. */
static int launch_find(struct check *check)
{
	struct command *command = check->command;
	struct launch *launch = check->launch;
	int r;

	if (command->token.generation)
		r = module_use_begin_token(command->broker, command->caller,
					   command->token, &launch->use, &check->refusal);
	else
		r = module_use_begin(command->broker, command->caller,
				     command->line.operands[0], command->line.operands[1],
				     &launch->use, &check->refusal);
	if (r < 0)
		return r;
	free(launch->kernel);
	if (asprintf(&launch->kernel, "%s/%.64s", module_name(launch->use.module).text,
		     launch->use.function->name) < 0) {
		launch->kernel = NULL;
		return refuse(&check->refusal, ENOMEM, "no memory in the broker");
	}
	return 0;
}

/*
 * The caller's own stream, or the default stream of the kernel's owner. As
 * command_stream().
 */
static struct stream *launch_stream(struct check *check)
{
	struct command *command = check->command;
	const struct module_use *use = &check->launch->use;
	const char *name = check->launch->spec.stream;
	struct stream *stream;

	if (use->module->owner->uid == command->caller->uid)
		return command_stream(command, name, use->image->device);
	stream = name ? NULL
		      : owner_default_stream(command->broker->registry,
					     use->module->owner, use->image->device);
	if (stream)
		return stream;
	pthread_mutex_unlock(&command->broker->registry->lock);
	if (name)
		command_fail(
			command, EPERM,
			"stream %s does not belong to uid %u, the owner of the kernel",
			name, use->module->owner->uid);
	else
		command_fail(command, ENOMEM, "no memory in the broker");
	return NULL;
}

/*
 * Finds an argument's allocation. With registry.lock held. Returns: NULL when the command
 * has been answered and the lock released.
 */
static struct allocation *check_allocation(struct check *check,
					   const struct launch_arg *arg)
{
	struct command *command = check->command;
	struct allocation *allocation;
	int r = 0;

	allocation = launch_find_named(check->launch, arg, sizeof(uint64_t),
				       command->caller, &check->refusal);
	if (!allocation) {
		pthread_mutex_unlock(&command->broker->registry->lock);
		command_refuse(command, &check->refusal);
		return NULL;
	}
	allocation = command_check_access(command, allocation,
					  arg->writes ? ACCESS_WRITE : ACCESS_READ);
	if (!allocation)
		return NULL;
	if (allocation->state == ALLOCATION_LOST)
		r = refuse_lost(&check->refusal, allocation);
	if (r == 0 && arg->offset >= allocation->size)
		r = range_fit(&(struct range){ .offset = arg->offset }, allocation,
			      &check->refusal);
	if (r == 0)
		r = launch_check_reach(check->launch, arg, allocation, command->caller,
				       &check->refusal);
	if (r == 0)
		return allocation;
	pthread_mutex_unlock(&command->broker->registry->lock);
	command_refuse(command, &check->refusal);
	return NULL;
}

/*
 * Where the use of the allocation is in the table, or shall be: 1 and the index of the
 * use; 0: there is none. A kernel may have a thousand arguments, and the lock is held.
 */
static uint32_t *find_place(const struct check *check,
			    const struct allocation *allocation)
{
	const struct use *uses = check->launch->op.work.uses;
	uint32_t at = (uint32_t)hash_of(&allocation, sizeof(allocation));

	while (check->places[at & check->mask] &&
	       uses[check->places[at & check->mask] - 1].allocation != allocation)
		at++;
	return &check->places[at & check->mask];
}

/*
 * Adds the allocations in the arguments as uses, each once and as a whole: a kernel gets
 * an address without an end. As check_allocation(). Returns: whether all were found.
 */
static bool launch_add_uses(struct check *check)
{
	struct launch *launch = check->launch;
	struct work *work = &launch->op.work;

	for (unsigned int i = 0; i < launch->spec.n_args; i++) {
		struct launch_arg *arg = &launch->spec.args[i];
		struct allocation *allocation;
		uint32_t *place;

		if (arg->kind != ARG_ALLOCATION)
			continue;
		allocation = check_allocation(check, arg);
		if (!allocation)
			return false;
		place = find_place(check, allocation);
		if (!*place) {
			work_use(work, allocation, 0, allocation->size, false);
			*place = work->n_uses;
		}
		arg->use = *place - 1;
		work->uses[arg->use].write |= arg->writes;
	}
	return true;
}

/* Moves memory of other owners that shares a block, ahead of the launch. */
static int launch_prepare_guest(struct check *check, struct op **ready)
{
	struct op *op = &check->launch->op;
	int r = 0;

	for (unsigned int i = 0; i < op->work.n_uses && r == 0; i++)
		r = guest_use(op, &op->work.uses[i], check->command->caller, ready,
			      &check->refusal);
	return r;
}

static int launch_prepare(struct check *check)
{
	struct launch *launch = check->launch;
	struct op *op = &launch->op;

	op->owner = launch->use.module->owner;
	op->worker = worker_of(op->broker, op->owner);
	check->mask = 7;
	while (check->mask < 2 * launch->spec.n_args)
		check->mask = 2 * check->mask + 1;
	check->places = calloc(check->mask + 1, sizeof(*check->places));
	if (!op->worker || !check->places ||
	    work_reserve_uses(&op->work, launch->spec.n_args) < 0)
		return refuse(&check->refusal, ENOMEM, "no memory in the broker");
	launch->n_resets = op->worker->n_resets;
	return 0;
}

/*
 * The steps under registry.lock; ends with the op under way or the command answered. With
 * registry.lock held; releases the lock.
 */
static void launch_start(struct check *check)
{
	struct command *command = check->command;
	struct broker *broker = command->broker;
	struct launch *launch = check->launch;
	struct op *op = &launch->op, *ready = NULL;
	struct stream *stream;
	int r;

	r = check->found;
	if (r == 0)
		r = launch_check_params(launch, command->caller, &check->refusal);
	if (r == 0)
		r = launch_check_limits(launch, &check->refusal);
	if (r == 0)
		r = launch_prepare(check);
	if (r < 0) {
		pthread_mutex_unlock(&broker->registry->lock);
		command_refuse(command, &check->refusal);
		return;
	}
	if (!launch_add_uses(check))
		return;
	stream = launch_stream(check);
	if (!stream)
		return;
	r = launch_prepare_guest(check, &ready);
	if (r < 0) {
		pthread_mutex_unlock(&broker->registry->lock);
		op_start(ready);
		command_refuse(command, &check->refusal);
		return;
	}
	op->image = launch->use.image;
	op->work.stream = stream;
	op->work.chain = op->worker;
	op->work.alone = launch->spec.timeout_ms != 0;
	strcpy(launch->stream, stream->name);
	launch_note_written(launch);
	launch_note_used(launch);
	check->launch = NULL;
	command_run_op(command, op, launch->spec.wait);
	op_start(ready);
}

/* Looks up a function by name, for a driver that can't enumerate functions. */
struct looking {
	struct completion wait;
	struct command *command;
	struct launch *launch;
};

static void launch_go(struct command *command, struct launch *launch, bool looked_up);

static void looked_up(struct completion *wait, int error, const void *bytes,
		      size_t length)
{
	struct looking *looking = container_of(wait, struct looking, wait);
	struct command *command = looking->command;
	struct launch *launch = looking->launch;

	(void)bytes;
	(void)length;
	free(looking);
	if (error == 0 || error == -ENOENT) {
		launch_go(command, launch, true);
		return;
	}
	launch_discard(launch);
	command_fail(command, -error,
		     "the driver could not be asked for function %s of module %s",
		     command->line.operands[1], command->line.operands[0]);
}

static void launch_look_up(struct command *command, struct launch *launch,
			   struct token module)
{
	struct looking *looking = calloc(1, sizeof(*looking));

	if (!looking) {
		launch_discard(launch);
		command_fail(command, ENOMEM, "no memory in the broker");
		return;
	}
	looking->wait.done = looked_up;
	looking->command = command;
	looking->launch = launch;
	module_look_up(command->broker, module, command->line.operands[1],
		       &looking->wait);
}

static void launch_go(struct command *command, struct launch *launch, bool asked)
{
	struct check check = { .command = command, .launch = launch };
	struct registry *registry = command->broker->registry;
	const struct module *module;
	struct token token;

	pthread_mutex_lock(&registry->lock);
	check.found = launch_find(&check);
	if (check.found != -EAGAIN) {
		launch_start(&check);
		launch_discard(check.launch);
		free(check.places);
		return;
	}
	module = module_find(registry, command->line.operands[0], command->caller,
			     &check.refusal);
	token = (struct token){ module->slot, module->slot_generation };
	pthread_mutex_unlock(&registry->lock);
	if (!asked) {
		launch_look_up(command, launch, token);
		return;
	}
	launch_discard(launch);
	command_fail(command, ENOENT, "module %s has no function %s",
		     command->line.operands[0], command->line.operands[1]);
}

void verb_launch(struct command *command)
{
	struct broker *broker = command->broker;
	struct refusal refusal;
	struct launch *launch;

	if (command_parse(command) < 0)
		return;
	launch = launch_new(broker, command_finish_op);
	if (!launch) {
		command_fail(command, ENOMEM, "no memory in the broker");
		return;
	}
	if (launch_line_parse(&launch->spec, &command->line, &refusal) < 0) {
		launch_discard(launch);
		command_refuse(command, &refusal);
		return;
	}
	if (!launch->spec.timeout_ms)
		launch->spec.timeout_ms = broker->ops->launch_timeout_ms;
	launch_go(command, launch, false);
}
