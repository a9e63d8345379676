/* SPDX-License-Identifier: MIT */
/*
 * Chunks: blocks shared by small allocations of an owner.
 *
 * An owner has a pool. A chunk is a block of 2 MiB divided into cells of equal size.
 * Memory that another owner may use is never in a chunk: such an allocation gets its own
 * block. A chunk is dissolved when its last cell is given back. Its block is freed,
 * except one block on each device, kept for the next chunk.
 */
#pragma once

#include "memory/block.h"

#define CHUNK_SIZE SPACE_UNIT
#define CELL_MAX   (CHUNK_SIZE / 2)

struct chunk_pool;

struct chunk_pool *chunk_pool_new(struct memory *memory);

/* Frees the pool. Its chunks must be empty and not mapped. Returns: NULL. */
struct chunk_pool *chunk_pool_free(struct chunk_pool *pool);

/*
 * Takes a cell of at least size bytes (at most CELL_MAX).
 *
 * Returns: 0; as block_new().
 */
int cell_get(struct chunk_pool *pool, uint32_t device, uint64_t size,
	     struct block **ret_block, uint32_t *ret_cell, uint64_t *ret_address,
	     struct cuda_failure *failure);

/*
 * Like cell_get(), without a driver call. Returns: 0; -ENOMEM; -EAGAIN when a driver call
 * is needed.
 */
int cell_get_ready(struct chunk_pool *pool, uint32_t device, uint64_t size,
		   struct block **ret_block, uint32_t *ret_cell, uint64_t *ret_address);

/*
 * Gives a cell back.
 *
 * Returns: NULL; or the chunk's block when the block is empty and not kept: the caller
 * unmaps it everywhere and calls block_free().
 */
struct block *cell_put(struct chunk_pool *pool, struct block *block, uint32_t cell);

/* Takes the kept block, to be freed; NULL: none. */
struct block *chunk_pool_shrink(struct chunk_pool *pool, uint32_t device);
