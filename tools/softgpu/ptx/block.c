/* SPDX-License-Identifier: MIT */
/*
 * A block of threads: shared memory, warps in turn, and barriers.
 *
 * A block is run for a while by one thread of the host at a time. The thread can leave
 * the block in the middle of anything, and another thread goes on from there.
 */
#include "cluster.h"

#define WARP_TURN  2000 /* ops, before another warp is let run */
#define BLOCK_TURN 20	/* rounds over the warps, before another block is */

struct block *block_new(struct grid *grid)
{
	const struct ptx_launch *launch = grid->launch;
	const uint32_t n_threads = launch->block.x * launch->block.y * launch->block.z;
	const uint32_t n_warps = (n_threads + LANES - 1) / LANES;
	const uint32_t fixed = launch->kernel->kernel.shared_size;
	struct block *block = calloc(1, sizeof(*block) + n_warps * sizeof(struct warp));

	if (!block)
		return NULL;
	block->grid = grid;
	block->n_threads = n_threads;
	block->n_warps = n_warps;
	block->dynamic_base = (uint32_t)align_up(fixed, 16);
	block->shared_size = launch->dynamic_shared
				     ? block->dynamic_base + launch->dynamic_shared
				     : fixed;
	block->shared = calloc(1, align_up(block->shared_size + 1, 16));
	if (!block->shared) {
		free(block);
		return NULL;
	}
	return block;
}

void block_free(struct block *block)
{
	if (!block)
		return;
	for (uint32_t i = 0; i < block->n_warps; i++)
		warp_end(&block->warps[i]);
	free(block->shared);
	free(block);
}

/* The place of a number in a box. */
static struct ptx_dim dim_at(struct ptx_dim size, uint64_t number)
{
	return (struct ptx_dim){ (uint32_t)(number % size.x),
				 (uint32_t)(number / size.x % size.y),
				 (uint32_t)(number / size.x / size.y) };
}

/* Blocks are counted cluster by cluster. */
static struct ptx_dim block_at(const struct ptx_launch *launch, uint64_t number)
{
	const struct ptx_dim size =
		launch->cluster.x ? launch->cluster : (struct ptx_dim){ 1, 1, 1 };
	const struct ptx_dim clusters = { launch->grid.x / size.x,
					  launch->grid.y / size.y,
					  launch->grid.z / size.z };
	const uint64_t n = (uint64_t)size.x * size.y * size.z;
	const struct ptx_dim cluster = dim_at(clusters, number / n);
	const struct ptx_dim inner = dim_at(size, number % n);

	return (struct ptx_dim){ cluster.x * size.x + inner.x,
				 cluster.y * size.y + inner.y,
				 cluster.z * size.z + inner.z };
}

bool block_start(struct block *block, uint64_t number)
{
	block->number = number;
	block->index = block_at(block->grid->launch, number);
	block->n_alive = block->n_threads;
	memset(block->barriers, 0, sizeof(block->barriers));
	for (uint32_t i = 0; i < block->n_warps; i++)
		if (!warp_start(&block->warps[i], block, i))
			return false;
	return true;
}

static bool block_is_over(const struct block *block)
{
	return !block->n_alive || __atomic_load_n(&block->grid->fault, __ATOMIC_RELAXED);
}

/* Whether any warp had something to do. */
static bool block_round(struct block *block)
{
	bool any = false;

	cluster_poll(block);
	for (uint32_t i = 0; i < block->n_warps && !block_is_over(block); i++) {
		if (!block->warps[i].ready)
			continue;
		warp_run(&block->warps[i], WARP_TURN);
		any = true;
	}
	return any;
}

bool block_run(struct block *block, struct worker *worker, bool *ret_stuck)
{
	/* Blocks of a cooperative grid spin until the others have come. */
	const int n = block->grid->launch->cooperative ? 1 : BLOCK_TURN;
	bool any = true;

	block->worker = worker;
	for (int i = 0; i < n && any && !block_is_over(block); i++)
		any = block_round(block);
	*ret_stuck = !any;
	return block_is_over(block);
}
