/* SPDX-License-Identifier: MIT */
/*
 * Chunks: blocks shared by small allocations of one owner.
 *
 * An owner has a pool; a chunk is a block of 2 MiB cut into cells of one size. What
 * another owner may use never stands here: it gets a block of its own. A chunk whose last
 * cell is given back is dissolved; its block goes, but for one on each device that is
 * kept for the next chunk.
 */
#pragma once

#include "memory/block.h"

#define CHUNK_SIZE SPACE_UNIT
#define CELL_MAX   (CHUNK_SIZE / 2)

struct chunk_pool;

struct chunk_pool *chunk_pool_new(struct memory *memory);

/* The pool's chunks are empty by now and mapped by nobody. Returns: NULL. */
struct chunk_pool *chunk_pool_free(struct chunk_pool *pool);

/*
 * Takes a cell of at least size bytes (at most CELL_MAX).
 *
 * Returns: 0; as block_new().
 */
int cell_get(struct chunk_pool *pool, uint32_t device, uint64_t size,
	     struct block **ret_block, uint32_t *ret_cell, uint64_t *ret_address,
	     struct cuda_failure *failure);

/* The same without a call to the driver. Returns: 0; -ENOMEM; -EAGAIN where it takes one.
 */
int cell_get_ready(struct chunk_pool *pool, uint32_t device, uint64_t size,
		   struct block **ret_block, uint32_t *ret_cell, uint64_t *ret_address);

/*
 * Gives a cell back.
 *
 * Returns: NULL; or the chunk's block where it is empty now and not kept: the caller has
 * it unmapped everywhere and calls block_free().
 */
struct block *cell_put(struct chunk_pool *pool, struct block *block, uint32_t cell);

/* Takes the block that was kept, to be given back; NULL when there is none. */
struct block *chunk_pool_shrink(struct chunk_pool *pool, uint32_t device);
