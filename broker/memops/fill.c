/* SPDX-License-Identifier: MIT */
#include "memops/fill.h"

#include <gpumem/wire.h>

#include "base/def.h"
#include "memops/permissions.h"
#include "model/allocation.h"
#include "model/order.h"
#include "op/op.h"

struct fill {
	struct op op;
	uint64_t pattern;
	uint32_t pattern_size;
	bool stay;
};

static enum begun fill_begin(struct op *op)
{
	struct fill *fill = container_of(op, struct fill, op);
	const struct use *use = &op->work.uses[0];

	op->request.record = (struct wire_request){
		.op = WIRE_FILL,
		.flags = fill->stay ? WIRE_STAY : 0,
		.device = use->allocation->device,
		.address = use->allocation->address + use->offset,
		.length = use->length,
		.pattern = fill->pattern,
		.pattern_size = fill->pattern_size,
	};
	return OP_RUN;
}

struct op *fill_op_new(struct broker *broker, struct owner *owner,
		       struct allocation *allocation, uint64_t offset, uint64_t length,
		       uint64_t pattern, uint32_t pattern_size, bool stay,
		       void (*finish)(struct op *op))
{
	static const struct op_class fill_class = {
		.what = "fill",
		.moves = MOVED_FILL,
		.begin = fill_begin,
		.settle = data_settle,
		.may_use = guest_may_ask,
		.repeatable = true,
		.overwrites = true,
	};
	struct op *op = op_new(sizeof(struct fill), &fill_class, broker, owner);
	struct fill *fill = op ? container_of(op, struct fill, op) : NULL;

	if (!op)
		return NULL;
	fill->pattern = pattern;
	fill->pattern_size = pattern_size;
	fill->stay = stay && allocation->managed;
	op->finish = finish;
	op->worker = allocation_worker(broker, allocation);
	if (!op->worker)
		return op_free(op);
	work_use(&op->work, allocation, offset, length, true);
	return op;
}
