/* SPDX-License-Identifier: MIT */
/*
 * How the lanes of a warp take their turns.
 *
 * Lanes may stand at different ops. The lanes that stand deepest in calls and then at the
 * lowest op run first, all together: lanes that took different branches meet again at the
 * first op on both ways. A lane may spin until another lane of the warp does something.
 * So every so many choices another lane is chosen in turn, and each goes on at last, as
 * hardware promises.
 *
 * Group: warp->mask of warp->ready. A handler that moves lanes elsewhere takes them out
 * of the mask and sets leave.
 */
#include "cluster.h"

#define FAIR_TURN 64 /* choices between two that are made in turn */
#define NO_STOP	  UINT32_MAX

/* A thread may call so deep before its stack is taken for overrun. */
#define DEPTH_MAX 20000

struct frame *frame_new(const struct ptx_function *function, struct frame *caller,
			uint32_t mask)
{
	const size_t registers = (size_t)function->n_registers * LANES * sizeof(uint64_t);
	const size_t params = (size_t)function->param_size * LANES;
	struct frame *frame;

	if (caller && caller->depth == DEPTH_MAX)
		return NULL;
	frame = calloc(1, sizeof(*frame) + registers + params);
	if (!frame)
		return NULL;
	frame->caller = caller;
	frame->function = function;
	frame->registers = (void *)(frame + 1);
	frame->params = (unsigned char *)(frame + 1) + registers;
	frame->mask = mask;
	if (caller) {
		frame->depth = caller->depth + 1;
		frame->local_base = caller->local_base + caller->function->local_size;
	}
	return frame;
}

void frame_free(struct frame *frame)
{
	free(frame);
}

bool lane_local(struct lane *lane, uint32_t size)
{
	unsigned char *grown;

	if (size <= lane->local_size)
		return true;
	grown = realloc(lane->local, size);
	if (!grown)
		return false;
	memset(grown + lane->local_size, 0, size - lane->local_size);
	lane->local = grown;
	lane->local_size = size;
	return true;
}

static void warp_place(struct warp *warp)
{
	const struct ptx_dim size = warp->block->grid->launch->block;

	for (uint32_t i = 0; i < LANES; i++) {
		const uint32_t thread = warp->index * LANES + i;

		warp->tid[0][i] = thread % size.x;
		warp->tid[1][i] = thread / size.x % size.y;
		warp->tid[2][i] = thread / size.x / size.y;
	}
}

bool warp_start(struct warp *warp, struct block *block, uint32_t index)
{
	const struct ptx_function *kernel = block->grid->launch->kernel;
	const uint32_t n = MIN((uint32_t)LANES, block->n_threads - index * LANES);
	const uint32_t mask = n == LANES ? UINT32_MAX : (1U << n) - 1;
	struct frame *frame = warp->frame;

	if (!frame)
		frame = frame_new(kernel, NULL, mask);
	if (!frame)
		return false;
	frame->mask = mask;
	warp->block = block;
	warp->frame = frame;
	warp->index = index;
	warp->mask = 0;
	warp->ready = mask;
	warp->at_barrier = warp->at_cluster = warp->waiting = 0;
	warp->exited = ~mask;
	warp->carry = 0;
	warp->turn = 0;
	warp_place(warp);
	for (uint32_t i = 0; i < LANES; i++) {
		struct lane *lane = &warp->lanes[i];

		lane->frame = frame;
		lane->pc = 0;
		if (mask >> i & 1 && !lane_local(lane, kernel->local_size))
			return false;
	}
	return true;
}

/* Frees all frames but the kernel's own, which the next start uses. */
static void frames_unwind(struct warp *warp)
{
	for (uint32_t i = 0; i < LANES; i++) {
		struct frame *frame = warp->lanes[i].frame;

		while (frame && frame->caller) {
			struct frame *caller = frame->caller;

			frame->mask &= ~(1U << i);
			if (!frame->mask)
				frame_free(frame);
			frame = caller;
		}
		warp->lanes[i].frame = NULL;
		if (frame)
			warp->frame = frame;
	}
}

void warp_end(struct warp *warp)
{
	frames_unwind(warp);
	for (uint32_t i = 0; i < LANES; i++)
		free(warp->lanes[i].local);
	frame_free(warp->frame);
}

void warp_split(struct warp *warp, uint32_t lanes, uint32_t pc)
{
	EACH_LANE(i, lanes)
	warp->lanes[i].pc = pc;
	warp->mask &= ~lanes;
	warp->leave = true;
}

void warp_park(struct warp *warp, uint32_t lanes)
{
	warp_split(warp, lanes, warp->pc);
	warp->ready &= ~lanes;
}

void warp_exit(struct warp *warp, uint32_t lanes)
{
	struct block *block = warp->block;

	warp->mask &= ~lanes;
	warp->ready &= ~lanes;
	warp->exited |= lanes;
	warp->leave = true;
	block->n_alive -= (uint32_t)__builtin_popcount(lanes);
	if (warp->waiting)
		collective_settle(warp);
	barrier_settle(block);
	cluster_exit(block, (uint32_t)__builtin_popcount(lanes));
}

/* The lane to run: the deepest and then lowest, or now and then the next in turn. */
static uint32_t warp_choose(struct warp *warp)
{
	uint32_t best = (uint32_t)__builtin_ctz(warp->ready);

	if (++warp->turn % FAIR_TURN == 0) {
		const uint32_t first = warp->turn / FAIR_TURN % LANES;
		const uint32_t later = warp->ready >> first << first;

		return later ? (uint32_t)__builtin_ctz(later) : best;
	}
	EACH_LANE(i, warp->ready)
	{
		const struct lane *lane = &warp->lanes[i];
		const struct lane *than = &warp->lanes[best];

		if (lane->frame->depth > than->frame->depth ||
		    (lane->frame->depth == than->frame->depth && lane->pc < than->pc))
			best = i;
	}
	return best;
}

/*
 * Makes the group. Returns: the op before which the group must stop, to meet others
 * there.
 */
static uint32_t warp_group(struct warp *warp)
{
	const struct lane *first = &warp->lanes[warp_choose(warp)];
	uint32_t stop = NO_STOP;

	warp->frame = first->frame;
	warp->registers = first->frame->registers;
	warp->values = first->frame->function->values;
	warp->pc = first->pc;
	warp->mask = 0;
	EACH_LANE(i, warp->ready)
	{
		const struct lane *lane = &warp->lanes[i];

		if (lane->frame != warp->frame)
			continue;
		if (lane->pc == warp->pc)
			warp->mask |= 1U << i;
		else if (lane->pc > warp->pc)
			stop = MIN(stop, lane->pc);
	}
	warp->others = warp->mask != warp->ready;
	return stop;
}

static uint32_t guard_mask(const struct warp *warp, const struct op *op)
{
	const uint64_t *values = warp->registers[op->guard];
	uint32_t mask = 0;

	EACH_LANE(i, warp->mask)
	mask |= (uint32_t)(values[i] != op->guard_negated) << i;
	return mask;
}

/* Runs the group until a new group must be chosen. */
static int group_run(struct warp *warp, uint32_t stop, int n_ops)
{
	const struct op *ops = warp->frame->function->ops;

	warp->leave = false;
	while (n_ops > 0 && warp->pc != stop) {
		const struct op *op = &ops[warp->pc++];
		uint32_t mask = warp->mask;

		n_ops--;
		if (op->guard >= 0)
			mask = guard_mask(warp, op);
		if (mask)
			op->run(warp, op, mask);
		if (warp->leave)
			break;
	}
	EACH_LANE(i, warp->mask)
	warp->lanes[i].pc = warp->pc;
	warp->mask = 0;
	return n_ops;
}

int warp_run(struct warp *warp, int n_ops)
{
	while (n_ops > 0 && warp->ready) {
		const uint32_t stop = warp_group(warp);

		n_ops = group_run(warp, stop, n_ops);
	}
	return n_ops;
}
