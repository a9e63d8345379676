/* SPDX-License-Identifier: MIT */
/*
 * Where a lane goes next: branches, calls, and ends.
 *
 * A call makes a frame for the lanes that make the call together, and copies arguments
 * into the frame; each lane takes the results along on return.
 */
#include "builtin.h"
#include "parser.h"
#include "warp.h"

#include <time.h>

static void bra(struct warp *warp, const struct op *op, uint32_t mask)
{
	if (mask == warp->mask && !warp->others)
		warp->pc = op->target;
	else
		warp_split(warp, mask, op->target);
}

static void brx(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint32_t *targets = warp->frame->function->targets + op->target;
	const uint64_t *index = warp_register(warp, op->source[0]);

	EACH_LANE(i, mask)
	{
		const uint32_t n = (uint32_t)index[i];

		if (n >= op->n_targets) {
			warp_fault(warp, PTX_FAULT_TRAP);
			return;
		}
		warp_split(warp, 1U << i, targets[n]);
	}
}

static unsigned char *frame_params(const struct frame *frame, uint32_t lane)
{
	return frame->params + (size_t)lane * frame->function->param_size;
}

static void part_read(const struct frame *frame, const struct argument *part,
		      uint32_t lane, unsigned char *ret)
{
	const struct operand operand = part->operand;
	uint64_t value;

	if (operand.index < 0) {
		memcpy(ret, frame_params(frame, lane) + part->offset, part->size);
		return;
	}
	value = operand.is_constant ? frame->function->values[operand.index][lane]
				    : frame->registers[operand.index][lane];
	memcpy(ret, &value, part->size);
}

static void argument_give(struct frame *caller, const struct argument *part,
			  struct frame *callee, const struct formal *formal,
			  uint32_t lane)
{
	uint64_t value = 0;

	if (formal->reg < 0) {
		part_read(caller, part, lane,
			  frame_params(callee, lane) + formal->offset);
		return;
	}
	part_read(caller, part, lane, (unsigned char *)&value);
	callee->registers[formal->reg][lane] = value;
}

static void result_take(struct frame *callee, const struct formal *formal,
			struct frame *caller, const struct argument *part, uint32_t lane)
{
	uint64_t value = 0;

	if (formal->reg >= 0)
		value = callee->registers[formal->reg][lane];
	if (part->operand.index < 0) {
		memcpy(frame_params(caller, lane) + part->offset,
		       formal->reg >= 0 ? (unsigned char *)&value
					: frame_params(callee, lane) + formal->offset,
		       part->size);
		return;
	}
	if (formal->reg < 0)
		memcpy(&value, frame_params(callee, lane) + formal->offset, part->size);
	caller->registers[part->operand.index][lane] = value;
}

/* Whether a call through an address fits the function at this address. */
static bool call_fits(const struct call *call, const struct ptx_function *callee)
{
	if (call->n_results != callee->n_results ||
	    call->n_arguments != callee->n_formals - callee->n_results)
		return false;
	for (size_t i = 0; i < callee->n_formals; i++)
		if (call->parts[i].size != callee->formals[i].size)
			return false;
	return true;
}

static void call_enter(struct warp *warp, const struct op *op, uint32_t mask,
		       const struct ptx_function *callee)
{
	const struct call *call = op->call;
	struct frame *frame;

	if (callee->builtin) {
		builtin_call(warp, callee->builtin, call, mask);
		return;
	}
	frame = frame_new(callee, warp->frame, mask);
	if (!frame) {
		warp_fault(warp, PTX_FAULT_ADDRESS);
		return;
	}
	frame->call = call;
	frame->return_to = warp->pc;
	EACH_LANE(i, mask)
	warp->lanes[i].frame = frame;
	EACH_LANE(i, mask)
	{
		for (size_t n = callee->n_results; n < callee->n_formals; n++)
			argument_give(warp->frame, &call->parts[n], frame,
				      &callee->formals[n], i);
		if (!lane_local(&warp->lanes[i],
				frame->local_base + callee->local_size)) {
			warp_fault(warp, PTX_FAULT_MEMORY);
			return;
		}
	}
	warp_split(warp, mask, 0);
}

/* The function at an address, or NULL. */
static const struct ptx_function *code_find(const struct ptx_module *module,
					    uint64_t address)
{
	const uint64_t n = (address - CODE_BASE) / CODE_STEP;

	if (address < CODE_BASE || address % CODE_STEP || n >= module->n_functions)
		return NULL;
	return module->by_code[n];
}

/* The lanes that call the same function go there together. */
static void call_indirect(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t *address = warp_register(warp, op->source[0]);

	while (mask) {
		const uint64_t to = address[__builtin_ctz(mask)];
		const struct ptx_function *callee =
			code_find(warp->frame->function->module, to);
		uint32_t together = 0;

		EACH_LANE(i, mask)
		together |= (uint32_t)(address[i] == to) << i;
		if (!callee || !callee->is_defined || !call_fits(op->call, callee)) {
			warp_fault(warp, PTX_FAULT_ADDRESS);
			return;
		}
		call_enter(warp, op, together, callee);
		mask &= ~together;
	}
}

static void call(struct warp *warp, const struct op *op, uint32_t mask)
{
	if (op->call->callee)
		call_enter(warp, op, mask, op->call->callee);
	else
		call_indirect(warp, op, mask);
}

void op_return(struct warp *warp, const struct op *op, uint32_t mask)
{
	struct frame *frame = warp->frame;
	const struct ptx_function *function = frame->function;

	(void)op;
	if (!frame->caller) {
		warp_exit(warp, mask);
		return;
	}
	EACH_LANE(i, mask)
	{
		for (size_t n = 0; n < function->n_results; n++)
			result_take(frame, &function->formals[n], frame->caller,
				    &frame->call->parts[n], i);
		warp->lanes[i].frame = frame->caller;
	}
	warp_split(warp, mask, frame->return_to);
	frame->mask &= ~mask;
	if (!frame->mask)
		frame_free(frame);
}

static void op_exit(struct warp *warp, const struct op *op, uint32_t mask)
{
	(void)op;
	warp_exit(warp, mask);
}

static void trap(struct warp *warp, const struct op *op, uint32_t mask)
{
	(void)op;
	(void)mask;
	warp_fault(warp, PTX_FAULT_TRAP);
}

/* Gives other lanes a turn; a long sleep also yields the host's processor. */
static void nano_sleep(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t *times = warp_source(warp, op, 0);
	uint64_t longest = 0;

	EACH_LANE(i, mask)
	longest = MAX(longest, MIN((uint64_t)(uint32_t)times[i], (uint64_t)1000000));
	if (longest >= 1000)
		nanosleep(&(struct timespec){ 0, (long)longest }, NULL);
	warp->leave = true;
}

static void nothing(struct warp *warp, const struct op *op, uint32_t mask)
{
	(void)warp;
	(void)op;
	(void)mask;
}

/* clang-format off */
static const struct instruction instructions[] = {
	{ "bra", NULL, GROUP_UNIFORM, .handler = bra, .parse = parse_bra },
	{ "brx.idx", NULL, GROUP_UNIFORM, .handler = brx, .parse = parse_brx },
	{ "call", NULL, GROUP_UNIFORM, .handler = call, .parse = parse_call },
	{ "ret", "", GROUP_UNIFORM, .handler = op_return },
	{ "exit", "", .handler = op_exit },
	{ "trap", "", .handler = trap },
	{ "brkpt", "", .handler = trap },
	{ "nanosleep", "u", .handler = nano_sleep, .types = TYPE_BIT(TYPE_U32) },
	{ "pmevent", "n", .handler = nothing },
	{ "pmevent.mask", "n", .handler = nothing },
};
/* clang-format on */

FAMILY(control);
