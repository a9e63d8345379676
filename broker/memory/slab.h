/* SPDX-License-Identifier: MIT */
/*
 * Slabs: blocks shared by small allocations of an owner.
 *
 * An owner has a pool. A slab is a block divided into cells of equal size. Memory that
 * another owner may use is never in a slab: such an allocation gets its own block. A
 * slab is dissolved when its last cell is given back. Its block is freed, except one
 * block at each place, kept for the next slab as long as slabs come and go.
 *
 * A host slab saves descriptors of the broker. Host memory that can be mapped through
 * the view needs a memfd of its own, so only allocations below the size of a page share
 * one.
 */
#pragma once

#include <stdint.h>

#include "memory/address_space.h"

#define SLAB_SIZE      SPACE_UNIT
#define CELL_MAX       (SLAB_SIZE / 2)
#define HOST_SLAB_SIZE ((uint64_t)256 << 10)
#define HOST_CELL_MAX  ((uint64_t)4095)

struct block;
struct slab_pool;
struct memory;

struct slab_pool *slab_pool_new(struct memory *memory);

/* Frees the pool. Its slabs must be empty and not mapped. Returns: NULL. */
struct slab_pool *slab_pool_free(struct slab_pool *pool);

/*
 * Takes a cell of at least size bytes (at most CELL_MAX, HOST_CELL_MAX). Its bytes are as
 * the last user left them.
 *
 * Returns: 0; -ENOMEM; -EAGAIN when another block is needed: see cell_get_in().
 */
int cell_get(struct slab_pool *pool, uint32_t place, uint64_t size,
	     struct block **ret_block, uint32_t *ret_cell, uint64_t *ret_address);

/*
 * Makes a new block of SLAB_SIZE or HOST_SLAB_SIZE a slab and takes a cell. The pool
 * owns the block. Returns: 0; -ENOMEM.
 */
int cell_get_in(struct slab_pool *pool, struct block *fresh, uint64_t size,
		struct block **ret_block, uint32_t *ret_cell, uint64_t *ret_address);

/*
 * After a broker's death: slab_restore() divides a block into free cells of its old class,
 * then cell_restore() takes each cell that an allocation has. Returns: 0; -EINVAL when the
 * block has no such cell, the cell is taken, or its address differs; -ENOMEM.
 */
int slab_restore(struct slab_pool *pool, struct block *block, uint32_t size_class);
int cell_restore(struct slab_pool *pool, struct block *block, uint32_t cell,
		 uint64_t address);

/*
 * Gives a cell back.
 *
 * Returns: NULL; or the slab's block when the block is empty and not kept: the caller
 * unmaps it everywhere and calls block_free().
 */
struct block *cell_put(struct slab_pool *pool, struct block *block, uint32_t cell);

/*
 * Takes a block kept in vain since before that time (clock_ms()), to be freed; NULL:
 * none.
 */
struct block *slab_pool_shrink(struct slab_pool *pool, uint32_t place, int64_t before_ms);
