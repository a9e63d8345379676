/* SPDX-License-Identifier: MIT */
/*
 * A running kernel: a grid has blocks, a block warps, a warp 32 lanes.
 *
 * A warp runs a group of lanes at a time, those at the same op of the same frame. A
 * register holds a value for each lane. This header has all that a handler needs: where
 * the operands are, and the ways to change the group.
 */
#pragma once

#include "module.h"

#include <string.h>

#define N_BARRIERS 16

/* A call of a function by the lanes that made the call together. */
struct frame {
	struct frame *caller;
	const struct ptx_function *function;
	const struct call *call;
	uint64_t (*registers)[LANES];
	unsigned char *params; /* param_size bytes a lane, lane after lane */
	uint32_t mask;	       /* the lanes that are in it */
	uint32_t depth;
	uint32_t return_to;
	uint32_t local_base; /* of its local memory, in each lane's */
};

/* The operands of a lane that waits in a collective op. */
struct exchange {
	const struct op *op;
	uint32_t members;
	uint64_t value;
	uint32_t at;
	uint32_t clamp;
	bool truth;
};

struct lane {
	struct frame *frame;
	uint32_t pc; /* not kept while it is in the running group */
	unsigned char barrier;
	uint32_t cluster_round;	   /* of the lane's arrival at the barrier */
	struct operand barrier_to; /* of bar.red */
	struct exchange exchange;
	unsigned char *local;
	uint32_t local_size;
};

struct warp {
	struct block *block;

	/* The running group. */
	struct frame *frame;
	uint64_t (*registers)[LANES];
	uint64_t (*values)[LANES];
	uint32_t pc;
	uint32_t mask;
	bool leave;  /* the group has changed: another choice must be made */
	bool others; /* lanes outside the group could run */

	/* Every lane is in one of these. */
	uint32_t ready;
	uint32_t at_barrier;
	uint32_t at_cluster;
	uint32_t waiting; /* for a collective op */
	uint32_t exited;

	uint32_t carry; /* CC.CF */
	uint32_t index;
	uint32_t turn;
	uint32_t tid[3][LANES];
	struct lane lanes[LANES];
};

struct barrier {
	uint32_t n_arrived;
	uint32_t n_expected; /* 0: all threads that have not ended */
	uint32_t n_true;     /* of bar.red */
	enum mode mode;
};

struct block {
	struct block *next;
	struct grid *grid;
	struct cluster *cluster; /* NULL: of its own */
	struct worker *worker;	 /* running the block now */
	struct ptx_dim index;
	uint64_t number;
	uint32_t n_threads;
	uint32_t n_alive;
	uint32_t n_warps;
	uint32_t shared_size;
	uint32_t dynamic_base;
	unsigned char *shared;
	struct barrier barriers[N_BARRIERS];
	struct warp warps[];
};

#define N_REACHES 8

/* A thread of the host that runs blocks, and the memory windows found lately. */
struct worker {
	struct grid *grid;
	uint64_t epoch;
	unsigned int last;
	struct ptx_window reaches[N_REACHES];
};

struct grid {
	const struct ptx_launch *launch;
	uint64_t n_blocks;
	uint32_t workspace[16]; /* of a cooperative grid's barrier */
	int fault;		/* enum ptx_fault, atomic */
};

#define EACH_LANE(i, lanes)                                               \
	for (uint32_t i, left_##i = (lanes);                              \
	     left_##i && ((i = (uint32_t)__builtin_ctz(left_##i)), true); \
	     left_##i &= left_##i - 1)

static inline uint64_t *warp_register(struct warp *warp, struct operand operand)
{
	return operand.is_constant ? warp->values[operand.index]
				   : warp->registers[operand.index];
}

static inline const uint64_t *warp_source(struct warp *warp, const struct op *op, int n)
{
	return warp_register(warp, op->source[n]);
}

static inline uint64_t *warp_to(struct warp *warp, const struct op *op)
{
	return warp_register(warp, op->to);
}

/* Starts a warp at the beginning of the kernel. Returns: false without memory. */
bool warp_start(struct warp *warp, struct block *block, uint32_t index);
void warp_end(struct warp *warp);

/* Runs until no lane is ready, or for about so many ops. Returns: the ops not used. */
int warp_run(struct warp *warp, int n_ops);

enum access_way {
	ACCESS_LOAD,
	ACCESS_STORE,
	ACCESS_ATOMIC,
};

/* An access that a lane must not make. */
struct access {
	enum access_way way;
	enum space space;
	uint32_t lane;
	uint32_t size;
	uint64_t address;
};

/* Ends the whole grid with a fault of the running op; of an access. */
void warp_fault(struct warp *warp, enum ptx_fault fault);
void warp_fault_at(struct warp *warp, enum ptx_fault fault, const struct access *access);

/* Takes lanes out of the running group, to stand at pc; they stay ready. */
void warp_split(struct warp *warp, uint32_t lanes, uint32_t pc);

/* Takes lanes out of the group and of those ready, to go on behind this op. */
void warp_park(struct warp *warp, uint32_t lanes);

/* Lanes end; an op that waits for all remaining lanes may go on. */
void warp_exit(struct warp *warp, uint32_t lanes);

/* A lane's local memory, at least so large. Returns: false without memory. */
bool lane_local(struct lane *lane, uint32_t size);

/* Frames. Returns: NULL without memory, or past the depth that a thread may reach. */
struct frame *frame_new(const struct ptx_function *function, struct frame *caller,
			uint32_t mask);
void frame_free(struct frame *frame);

/* Makes lanes ready whose collective op or barrier is complete. */
void collective_settle(struct warp *warp);
void barrier_settle(struct block *block);

/* A block's life. Returns of run: whether it has ended. */
struct block *block_new(struct grid *grid);
bool block_start(struct block *block, uint64_t number);
bool block_run(struct block *block, struct worker *worker, bool *ret_stuck);
void block_free(struct block *block);
