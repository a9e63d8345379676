/* SPDX-License-Identifier: MIT */
#include "kernels/launch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/verbs.h"

int launch_check_params(struct check *check)
{
	const struct launch_line *line = &check->launch->line;
	const struct function *function = check->launch->use.function;
	const char *kernel = check->launch->kernel;

	if (!function->has_params)
		return 0;
	if (line->n_args != function->n_params)
		return check_refuse(check, EINVAL,
				    "arguments of kernel %s: it takes %u, %u given",
				    kernel, function->n_params, line->n_args);
	for (unsigned int i = 0; i < line->n_args; i++) {
		const struct launch_arg *arg = &line->args[i];

		if (arg->size != function->params[i].size)
			return check_refuse(check, EINVAL,
					    "argument %u, %.64s, has %u bytes, the "
					    "parameter of %s %u",
					    i + 1, arg->word, arg->size, kernel,
					    function->params[i].size);
	}
	return 0;
}

static int check_dimension(struct check *check, const char *what, const uint32_t given[3],
			   const uint32_t most[3])
{
	for (int i = 0; i < 3; i++) {
		if (given[i] > most[i])
			return check_refuse(check, EINVAL,
					    "%s=%u,%u,%u is over the device's %u,%u,%u",
					    what, given[0], given[1], given[2], most[0],
					    most[1], most[2]);
	}
	return 0;
}

static int check_cluster(struct check *check, const struct device *device)
{
	const struct launch_line *line = &check->launch->line;

	if (!line->cluster[0])
		return 0;
	if (!device->limits.cluster)
		return check_refuse(check, EOPNOTSUPP,
				    "device %u has no clusters "
				    "(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH is 0)",
				    device->index);
	for (int i = 0; i < 3; i++) {
		if (line->grid[i] % line->cluster[i])
			return check_refuse(check, EINVAL,
					    "grid=%u,%u,%u is no multiple of "
					    "cluster=%u,%u,%u",
					    line->grid[0], line->grid[1], line->grid[2],
					    line->cluster[0], line->cluster[1],
					    line->cluster[2]);
	}
	return 0;
}

int launch_check_limits(struct check *check)
{
	const struct launch_line *line = &check->launch->line;
	const struct device *device =
		check->command->broker->registry
			.device_at[check->launch->use.image->device];
	const struct launch_limits *limits = &device->limits;
	uint64_t threads = (uint64_t)line->block[0] * line->block[1] * line->block[2];
	int r;

	r = check_dimension(check, "grid", line->grid, limits->grid);
	if (r == 0)
		r = check_dimension(check, "block", line->block, limits->block);
	if (r < 0)
		return r;
	if (threads > limits->threads)
		return check_refuse(check, EINVAL,
				    "a block of %llu threads is over the device's %u",
				    (unsigned long long)threads, limits->threads);
	if (line->shared > limits->shared)
		return check_refuse(check, EINVAL,
				    "shared=%u is over the device's %u bytes a block",
				    line->shared, limits->shared);
	if (line->cooperative && !limits->cooperative)
		return check_refuse(check, EOPNOTSUPP,
				    "device %u has no cooperative launches "
				    "(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH is 0)",
				    device->index);
	return check_cluster(check, device);
}

/* Whether the kernel's worker may have it; the caller may use it. */
static int check_reach(struct check *check, const struct allocation *allocation,
		       const struct launch_arg *arg)
{
	const struct owner *owner = check->launch->use.module->owner;
	uint32_t device = check->launch->use.image->device;

	if (allocation->owner != owner && !kind_is_durable(allocation->kind))
		return check_refuse(check, EXDEV,
				    "allocation %s of kind %s lives in the worker of uid "
				    "%u, the kernel runs in that of uid %u",
				    allocation->name, kind_name(allocation->kind),
				    allocation->owner->uid, owner->uid);
	if (!owner_may(owner, allocation, arg->writes ? ACCESS_WRITE : ACCESS_READ))
		return check_refuse(
			check, EACCES,
			"uid %u, whose kernel it is, may not %s allocation %s "
			"of uid %u, mode %04o",
			owner->uid, arg->writes ? "write" : "read", allocation->name,
			allocation->owner->uid, allocation->mode);
	if (!kind_has_device(allocation->kind) || allocation->device == device)
		return 0;
	if (!kind_is_durable(allocation->kind) ||
	    !(check->command->broker->registry.device_at[device]->peers >>
		      allocation->device &
	      1))
		return check_refuse(check, EXDEV,
				    "allocation %s of kind %s is on device %u, out of "
				    "reach of the kernel on device %u",
				    allocation->name, kind_name(allocation->kind),
				    allocation->device, device);
	return 0;
}

/*
 * Finds an argument's allocation. With registry.lock held.
 * Returns: NULL when the command has been answered, and the lock is let go.
 */
static struct allocation *check_allocation(struct check *check,
					   const struct launch_arg *arg)
{
	struct command *command = check->command;
	struct allocation *allocation;
	int r = 0;

	allocation = command_find(command, arg->name,
				  arg->writes ? ACCESS_WRITE : ACCESS_READ);
	if (!allocation)
		return NULL;
	if (allocation->state == ALLOCATION_LOST)
		r = refuse_lost(&check->refusal, allocation);
	if (r == 0 && arg->offset >= allocation->size)
		r = check_refuse(check, ERANGE,
				 "offset %llu is outside allocation %s of %llu bytes",
				 (unsigned long long)arg->offset, arg->name,
				 (unsigned long long)allocation->size);
	if (r == 0)
		r = check_reach(check, allocation, arg);
	if (r == 0)
		return allocation;
	pthread_mutex_unlock(&command->broker->registry.lock);
	command_refuse(command, &check->refusal);
	return NULL;
}

bool launch_add_uses(struct check *check)
{
	struct launch *launch = check->launch;
	struct work *work = &launch->op.work;

	for (unsigned int i = 0; i < launch->line.n_args; i++) {
		const struct launch_arg *arg = &launch->line.args[i];
		struct allocation *allocation;

		if (arg->kind != ARG_ALLOCATION)
			continue;
		allocation = check_allocation(check, arg);
		if (!allocation)
			return false;
		work_use(work, allocation, 0, allocation->size, arg->writes);
		work->uses[work->n_uses - 1].guest_writes =
			owner_may(launch->use.module->owner, allocation, ACCESS_WRITE);
	}
	return true;
}

void launch_note_written(struct launch *launch)
{
	for (unsigned int i = 0; i < launch->op.work.n_uses; i++) {
		if (launch->op.work.uses[i].write)
			allocation_written(launch->op.work.uses[i].allocation);
	}
}
