/* SPDX-License-Identifier: MIT */
/*
 * Managed memory: prefetch, advise, attach.
 *
 * The owner's worker does all three, for any caller, in the order of uses. A prefetch or
 * an advice changes no byte, so it counts as a read: it waits for writes, allows other
 * reads, and delays a free. (Writes of a later kernel would undo a prefetch; a user who
 * writes and then prefetches means the written data.) Overlapping ones keep their order
 * (use->places), so that the last one is defined. An attach says which kernels may use
 * the memory from now on. Like a write, it waits for all earlier uses.
 *
 * Results are noted in the registry (model/managed_ranges.h) before the op leaves the
 * order. Where parts differ, each part has its own request (op/submit.c).
 */
#include <errno.h>
#include <stdio.h>

#include "base/numa.h"
#include "base/refusal.h"
#include "cuda/driver.h"
#include "memops/permissions.h"
#include "memops/placement.h"
#include "model/allocation.h"
#include "model/location.h"
#include "model/range.h"
#include "model/registry.h"
#include "process/broker.h"

/* ---- the ops ---- */

static enum begun placing_begin(struct op *op)
{
	struct placing *placing = container_of(op, struct placing, op);
	const struct use *use = &op->work.uses[0];
	int r = managed_reserve(use->allocation->managed);

	placing->reserved = r == 0;
	if (r < 0)
		return op_refuse(
			op, ENOMEM, "allocation %s: %s",
			allocation_name(use->allocation).text,
			r == -ENOSPC ? "too many of its ranges differ in advice or place"
				     : "no memory in the broker");
	op->request.record = (struct wire_request){
		.op = placing->wire_op,
		.device = placing->device,
		.address = use->allocation->address + use->offset,
		.length = use->length,
		.location = placing->location,
		.advice = placing->advice,
	};
	return OP_RUN;
}

/*
 * Notes each part: after a repeat in another process, done parts are restored and the
 * rest follows.
 */
static void placing_note(struct op *op, const struct wire_reply *reply)
{
	struct placing *placing = container_of(op, struct placing, op);
	const struct allocation *allocation = op->work.uses[0].allocation;

	(void)reply;
	managed_set(allocation->managed, &op->broker->registry->managed,
		    op->request.record.address - allocation->address,
		    op->request.record.length, placing->change, placing->value);
}

static void placing_settle(struct op *op)
{
	struct placing *placing = container_of(op, struct placing, op);

	if (placing->reserved)
		managed_unreserve(op->work.uses[0].allocation->managed);
}

const struct op_class prefetch_class = {
	.what = "prefetch",
	.begin = placing_begin,
	.note = placing_note,
	.settle = placing_settle,
	.may_use = guest_may_ask,
	.repeatable = true,
};

const struct op_class advise_class = {
	.what = "advice",
	.begin = placing_begin,
	.note = placing_note,
	.settle = placing_settle,
	.may_use = guest_may_ask,
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
	/* The driver works on whole pages: two ranges on one page overlap. */
	work_use(&op->work, allocation, begin, end - begin, false);
	op->work.uses[0].places = true;
	return container_of(op, struct placing, op);
}

/* ---- checks ---- */

static int check_kind(const struct allocation *allocation, const char *what,
		      struct refusal *refusal)
{
	if (allocation->managed)
		return 0;
	return refuse(refusal, EINVAL,
		      "allocation %s has kind=%s: %s is for kind=managed",
		      allocation_name(allocation).text,
		      kind_name((enum allocation_kind)allocation->kind), what);
}

static int check_location(const struct broker *broker, uint16_t location, int call,
			  struct refusal *refusal)
{
	unsigned int number = location_number(location);

	if (location_place(location) == LOCATION_DEVICE)
		return device_check(broker->registry, number, refusal);
	if (location_place(location) != LOCATION_NUMA)
		return 0;
	if (!numa_has(number))
		return refuse(refusal, ENOENT, "there is no NUMA node %u", number);
	if (!cuda_driver_has(broker->driver, call))
		return refuse(refusal, EOPNOTSUPP,
			      "numa:%u needs %s, which this driver lacks: use cpu or "
			      "device:N",
			      number, cuda_call_name(call));
	return 0;
}

int managed_check_concurrent(const struct broker *broker, uint32_t device,
			     const char *what, struct refusal *refusal)
{
	if (broker->registry->device_at[device]->has_concurrent)
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

	r = check_kind(allocation, what, refusal);
	if (r == 0)
		r = check_location(broker, location, call, refusal);
	if (r == 0)
		r = range_fit(range, allocation, refusal);
	/* Advice about the CPU works on any device. */
	if (r == 0 && location_place(location) == LOCATION_DEVICE)
		r = managed_check_concurrent(broker, location_number(location), what,
					     refusal);
	return r;
}
