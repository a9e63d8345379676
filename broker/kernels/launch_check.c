/* SPDX-License-Identifier: MIT */
#include "base/number.h"
#include "base/refusal.h"
#include "kernels/launch.h"
#include "memops/move.h"
#include "memops/permissions.h"
#include "memops/withdrawal.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/device.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/registry.h"
#include "process/broker.h"

#include <errno.h>
#include <string.h>

/* The type to write for a number of so many bytes; NULL: there is none. */
static const char *number_type(const char *word, uint32_t size)
{
	bool is_float = strpbrk(word, ".eE");

	switch (size) {
	case 1:
		return is_float ? NULL : "i8";
	case 2:
		return is_float ? "f16" : "i16";
	case 4:
		return is_float ? "f32" : "i32";
	case 8:
		return is_float ? "f64" : "i64";
	default:
		return NULL;
	}
}

static int refuse_name(const struct launch_arg *arg, uint32_t size,
		       struct refusal *refusal)
{
	const char *type =
		word_is_number(arg->name) ? number_type(arg->name, size) : NULL;

	if (type)
		return refuse(refusal, ENOENT,
			      "there is no allocation '%s'; for a number write %s:%s",
			      arg->name, type, arg->name);
	return refuse(refusal, ENOENT, "there is no allocation %s", arg->name);
}

struct allocation *launch_find_named(const struct launch *launch,
				     const struct launch_arg *arg, uint32_t size,
				     const struct caller *caller, struct refusal *refusal)
{
	struct allocation *allocation = allocation_find_made(launch->op.broker->registry,
							     arg->name, caller, refusal);

	if (!allocation && refusal->error == ENOENT && !strchr(arg->name, '/'))
		(void)refuse_name(arg, size, refusal);
	return allocation;
}

/* Argument i has another size than the kernel's parameter. */
static int refuse_size(const struct launch *launch, unsigned int i,
		       const struct caller *caller, struct refusal *refusal)
{
	const struct launch_arg *arg = &launch->spec.args[i];
	uint32_t size = launch->use.function->params[i].size;

	if (arg->kind == ARG_ALLOCATION &&
	    !launch_find_named(launch, arg, size, caller, refusal))
		return -refusal->error;
	return refuse(refusal, EINVAL,
		      "argument %u, %.64s, has %u byte%s%s; parameter %u of %s has %u",
		      i + 1, arg->word, arg->size, arg->size == 1 ? "" : "s",
		      arg->kind == ARG_ALLOCATION ? ", an address" : "", i + 1,
		      launch->kernel, size);
}

int launch_check_params(struct launch *launch, const struct caller *caller,
			struct refusal *refusal)
{
	const struct launch_spec *spec = &launch->spec;
	const struct function *function = launch->use.function;
	const char *kernel = launch->kernel;

	if (!function->has_params)
		return 0;
	if (spec->n_args != function->n_params)
		return refuse(refusal, EINVAL,
			      "kernel %s has %u parameter%s: the line has %u argument%s",
			      kernel, function->n_params,
			      function->n_params == 1 ? "" : "s", spec->n_args,
			      spec->n_args == 1 ? "" : "s");
	for (unsigned int i = 0; i < spec->n_args; i++) {
		const struct launch_arg *arg = &spec->args[i];

		if (arg->size != function->params[i].size)
			return refuse_size(launch, i, caller, refusal);
	}
	return 0;
}

static int check_dimension(const char *what, const uint32_t given[3],
			   const uint32_t most[3], struct refusal *refusal)
{
	for (int i = 0; i < 3; i++) {
		if (given[i] > most[i])
			return refuse(refusal, EINVAL,
				      "%s=%u,%u,%u is too large: the device has at most "
				      "%u,%u,%u",
				      what, given[0], given[1], given[2], most[0],
				      most[1], most[2]);
	}
	return 0;
}

static int check_cluster(const struct launch_spec *spec, const struct device *device,
			 struct refusal *refusal)
{
	if (!spec->cluster[0])
		return 0;
	if (!device->limits.cluster)
		return refuse(refusal, EOPNOTSUPP,
			      "device %u has no clusters "
			      "(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH is 0)",
			      device->index);
	for (int i = 0; i < 3; i++) {
		if (spec->grid[i] % spec->cluster[i])
			return refuse(refusal, EINVAL,
				      "grid=%u,%u,%u is not a multiple of "
				      "cluster=%u,%u,%u",
				      spec->grid[0], spec->grid[1], spec->grid[2],
				      spec->cluster[0], spec->cluster[1],
				      spec->cluster[2]);
	}
	return 0;
}

int launch_check_limits(struct launch *launch, struct refusal *refusal)
{
	const struct launch_spec *spec = &launch->spec;
	const struct device *device =
		launch->op.broker->registry->device_at[launch->use.image->device];
	const struct launch_limits *limits = &device->limits;
	uint64_t threads = (uint64_t)spec->block[0] * spec->block[1] * spec->block[2];
	int r;

	r = check_dimension("grid", spec->grid, limits->grid, refusal);
	if (r == 0)
		r = check_dimension("block", spec->block, limits->block, refusal);
	if (r < 0)
		return r;
	if (threads > limits->threads)
		return refuse(refusal, EINVAL,
			      "a block of %llu threads is too large: the device has at "
			      "most %u",
			      (unsigned long long)threads, limits->threads);
	if (spec->shared > limits->shared)
		return refuse(refusal, EINVAL,
			      "shared=%u is too much: the device has at most %s a block",
			      spec->shared, size_text(limits->shared));
	if (spec->cooperative && !limits->cooperative)
		return refuse(refusal, EOPNOTSUPP,
			      "device %u has no cooperative launches "
			      "(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH is 0)",
			      device->index);
	return check_cluster(spec, device, refusal);
}

static int refuse_kernel_use(struct refusal *refusal, const struct owner *owner,
			     const struct allocation *allocation, bool writes)
{
	return refuse(refusal, EACCES,
		      "kernels of uid %u may not %s allocation %s of uid %u, mode %04o",
		      owner->uid, writes ? "write" : "read",
		      allocation_name(allocation).text, allocation->owner->uid,
		      allocation->mode);
}

int launch_check_reach(struct launch *launch, const struct launch_arg *arg,
		       const struct allocation *allocation, const struct caller *caller,
		       struct refusal *refusal)
{
	const struct owner *owner = launch->use.module->owner;
	uint32_t device = launch->use.image->device;

	if (allocation->owner != owner && !kind_is_durable(allocation->kind))
		return refuse(refusal, EXDEV,
			      "allocation %s of kind %s lives in the worker of uid "
			      "%u, the kernel runs in that of uid %u",
			      allocation_name(allocation).text,
			      kind_name(allocation->kind), allocation->owner->uid,
			      owner->uid);
	if (caller->uid != owner->uid &&
	    !owner_may(owner, allocation, arg->writes ? ACCESS_WRITE : ACCESS_READ))
		return refuse_kernel_use(refusal, owner, allocation, arg->writes);
	if (arg->writes && allocation->sealed)
		return refuse(refusal, EPERM,
			      "allocation %s is sealed: nobody can write it any more; a "
			      "kernel that only reads it takes in:%s",
			      allocation_name(allocation).text, arg->name);
	if (!kind_has_device(allocation->kind) || allocation->device == device)
		return 0;
	if (!kind_is_durable(allocation->kind) ||
	    !(launch->op.broker->registry->device_at[device]->peers >>
		      allocation->device &
	      1))
		return refuse(refusal, EXDEV,
			      "allocation %s of kind %s is on device %u, out of "
			      "reach of the kernel on device %u",
			      allocation_name(allocation).text,
			      kind_name(allocation->kind), allocation->device, device);
	return 0;
}

int launch_check_rights(struct launch *launch, struct refusal *refusal)
{
	struct work *work = &launch->op.work;
	int r = 0;

	for (unsigned int i = 0; i < work->n_uses && r == 0; i++) {
		struct use *use = &work->uses[i];

		use->guest_writes = guest_may_write(&launch->op, use);
		if (guest_comes_after_seal(&launch->op, use))
			r = refuse_sealed(refusal, use->allocation);
		else if (!guest_may_use(&launch->op, use))
			r = refuse_kernel_use(refusal, launch->op.owner, use->allocation,
					      use->write);
		else if (guest_shares_block(&launch->op, use->allocation))
			r = refuse_shared(refusal, use->allocation);
	}
	return r < 0 ? r : guest_map_anew(&launch->op, refusal);
}

void launch_note_written(struct launch *launch)
{
	for (unsigned int i = 0; i < launch->op.work.n_uses; i++) {
		if (launch->op.work.uses[i].write)
			allocation_written(launch->op.work.uses[i].allocation);
	}
}

void launch_note_used(struct launch *launch)
{
	for (unsigned int i = 0; i < launch->op.work.n_uses; i++)
		allocation_used(launch->op.work.uses[i].allocation);
}
