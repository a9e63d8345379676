/* SPDX-License-Identifier: MIT */
/*
 * Chunks: blocks shared by small allocations of an owner.
 *
 * An owner has a pool. A chunk is a block divided into cells of equal size. Memory that
 * another owner may use is never in a chunk: such an allocation gets its own block. A
 * chunk is dissolved when its last cell is given back. Its block is freed, except one
 * block at each place, kept for the next chunk.
 *
 * A host chunk saves descriptors of the broker. Host memory that can be mapped through
 * the view needs a memfd of its own, so only allocations below the size of a page share
 * one.
 */
#pragma once

#include <stdint.h>

#include "memory/address_space.h"

#define CHUNK_SIZE	SPACE_UNIT
#define CELL_MAX	(CHUNK_SIZE / 2)
#define HOST_CHUNK_SIZE ((uint64_t)256 << 10)
#define HOST_CELL_MAX	((uint64_t)4095)

struct block;
struct chunk_pool;
struct memory;

struct chunk_pool *chunk_pool_new(struct memory *memory);

/* Frees the pool. Its chunks must be empty and not mapped. Returns: NULL. */
struct chunk_pool *chunk_pool_free(struct chunk_pool *pool);

/*
 * Takes a cell of at least size bytes (at most CELL_MAX, HOST_CELL_MAX). Its bytes are as
 * the last user left them.
 *
 * Returns: 0; -ENOMEM; -EAGAIN when another block is needed: see cell_get_in().
 */
int cell_get(struct chunk_pool *pool, uint32_t place, uint64_t size,
	     struct block **ret_block, uint32_t *ret_cell, uint64_t *ret_address);

/*
 * Makes a new block of CHUNK_SIZE or HOST_CHUNK_SIZE a chunk and takes a cell. The pool
 * owns the block. Returns: 0; -ENOMEM.
 */
int cell_get_in(struct chunk_pool *pool, struct block *fresh, uint64_t size,
		struct block **ret_block, uint32_t *ret_cell, uint64_t *ret_address);

/*
 * Gives a cell back.
 *
 * Returns: NULL; or the chunk's block when the block is empty and not kept: the caller
 * unmaps it everywhere and calls block_free().
 */
struct block *cell_put(struct chunk_pool *pool, struct block *block, uint32_t cell);

/* Takes the kept block, to be freed; NULL: none. */
struct block *chunk_pool_shrink(struct chunk_pool *pool, uint32_t place);
