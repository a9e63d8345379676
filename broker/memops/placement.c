/* SPDX-License-Identifier: MIT */
/*
 * Managed memory: prefetch, advise, attach.
 *
 * All are done by the owner's worker, whoever asks, and take their place in the order of
 * uses. A prefetch or an advice changes no byte, so it uses the memory as a reader does:
 * it waits for those who write (a prefetch that a kernel's writes come after would be
 * undone by them, and a user who writes and then prefetches means what he wrote), lets
 * others read meanwhile, and a free waits for it. Two that overlap keep their order all
 * the same (use->places), or nobody could say which was the last.
 * Attaching says who may use the memory from now on: it comes behind all uses before it,
 * as a write does.
 *
 * What the driver has done is noted in the registry (model/managed_ranges.h) before the
 * op leaves the order. It is asked for part by part where parts differ (op_ask.c).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "memops/placement.h"

/* ---- the ops ---- */

static void placing_run(struct op *op)
{
	struct placing *placing = container_of(op, struct placing, op);
	const struct use *use = &op->work.uses[0];
	char name[NAME_MAX_LENGTH + 1];
	int r;

	pthread_mutex_lock(&op->broker->registry.lock);
	r = managed_reserve(use->allocation->managed);
	placing->reserved = r == 0;
	strcpy(name, use->allocation->name);
	pthread_mutex_unlock(&op->broker->registry.lock);
	if (r < 0) {
		op_fail(op, ENOMEM, "allocation %s: %s", name,
			r == -ENOSPC ? "it has as many ranges that differ as it may"
				     : "no memory in the broker");
		return;
	}
	op->ask.request = (struct wire_request){
		.op = placing->wire_op,
		.device = placing->device,
		.address = use->allocation->address + use->offset,
		.length = use->length,
		.location = placing->location,
		.advice = placing->advice,
	};
	op_ask(op);
}

/* Part by part: made anew in another worker it has what was done, and then the rest. */
static void placing_note(struct op *op)
{
	struct placing *placing = container_of(op, struct placing, op);
	const struct allocation *allocation = op->work.uses[0].allocation;

	managed_set(allocation->managed, &op->broker->registry.managed,
		    op->ask.request.address - allocation->address, op->ask.request.length,
		    placing->change, placing->value);
}

static void placing_settle(struct op *op)
{
	struct placing *placing = container_of(op, struct placing, op);

	if (placing->reserved)
		managed_unreserve(op->work.uses[0].allocation->managed);
}

const struct op_class prefetch_class = {
	.what = "prefetch",
	.run = placing_run,
	.note = placing_note,
	.settle = placing_settle,
	.repeatable = true,
};

const struct op_class advise_class = {
	.what = "advice",
	.run = placing_run,
	.note = placing_note,
	.settle = placing_settle,
	.repeatable = true,
};

struct placing *placing_new(struct broker *broker, const struct op_class *class,
			    struct owner *owner, struct allocation *allocation,
			    const struct range *range, void (*finish)(struct op *op))
{
	struct op *op = op_new(sizeof(struct placing), class, broker, owner);
	uint64_t page = allocation->managed->page;
	uint64_t begin = range->offset & ~(page - 1);
	uint64_t end =
		MIN(align_up(range->offset + range->length, page), allocation->size);

	if (!op)
		return NULL;
	op->finish = finish;
	op->worker = worker_of(broker, allocation->owner);
	if (!op->worker) {
		op_free(op);
		return NULL;
	}
	/* The driver takes whole pages: two that share one overlap. */
	work_use(&op->work, allocation, begin, end - begin, false);
	op->work.uses[0].places = true;
	return container_of(op, struct placing, op);
}

/* ---- what they check ---- */

static int check_kind(const struct allocation *allocation, struct refusal *refusal)
{
	if (allocation->managed)
		return 0;
	return refuse(refusal, EINVAL,
		      "allocation %s is of kind %s: this is for managed memory",
		      allocation->name,
		      kind_name((enum allocation_kind)allocation->kind));
}

static bool node_is_there(unsigned int number)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u", number);
	return access(path, F_OK) == 0;
}

static int check_location(const struct broker *broker, uint16_t location, int call,
			  struct refusal *refusal)
{
	unsigned int number = location_number(location);

	if (location_place(location) == LOCATION_DEVICE &&
	    number >= broker->registry.n_devices)
		return refuse(refusal, ENOENT,
			      "there is no device %u: the last one is %u", number,
			      broker->registry.n_devices - 1);
	if (location_place(location) != LOCATION_NUMA)
		return 0;
	if (!node_is_there(number))
		return refuse(refusal, ENOENT, "there is no NUMA node %u", number);
	if (!cuda_driver_has(broker->driver, call))
		return refuse(refusal, EOPNOTSUPP,
			      "numa:%u: the driver lacks %s, the older call knows only "
			      "cpu and device:N",
			      number, cuda_call_name(call));
	return 0;
}

int managed_check_concurrent(const struct broker *broker, uint32_t device,
			     const char *what, struct refusal *refusal)
{
	if (broker->registry.device_at[device]->has_concurrent)
		return 0;
	return refuse(refusal, EOPNOTSUPP,
		      "%s: device %u lacks "
		      "CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS",
		      what, device);
}

int managed_check(const struct broker *broker, const struct allocation *allocation,
		  uint16_t location, int call, const char *what, struct range *range,
		  struct refusal *refusal)
{
	int r;

	r = check_kind(allocation, refusal);
	if (r == 0)
		r = check_location(broker, location, call, refusal);
	if (r == 0)
		r = range_fit(range, allocation, refusal);
	/* What is about the CPU alone works on any device. */
	if (r == 0 && location_place(location) == LOCATION_DEVICE)
		r = managed_check_concurrent(broker, location_number(location), what,
					     refusal);
	return r;
}
