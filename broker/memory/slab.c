/* SPDX-License-Identifier: MIT */
#include "memory/slab.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/def.h"
#include "memory/block.h"

/* Cell sizes: 256 bytes (the alignment of cuMemAlloc) times 1, 2, 3, 4, 6, 8, 12, ... */
#define CELL_MIN     256u
#define N_CELL_SIZES 24

struct chunk {
	struct block *block;
	unsigned int size_class;
	uint32_t n_cells, n_used;
	uint32_t hint; /* the words before this index have no free cell */
	struct chunk *prev, *next;
	uint64_t used[];
};

/* Chunks with a free cell, by place and size; full chunks are in no list. */
struct chunk_pool {
	struct memory *memory;
	struct chunk *open[N_PLACES][N_CELL_SIZES];
	struct block *spare[N_PLACES]; /* for the next chunk of any size */
};

static uint64_t cell_size(unsigned int size_class)
{
	if (size_class == 0)
		return CELL_MIN;
	/* 1: 512, 2: 768, 3: 1024, 4: 1536, 5: 2048, ... */
	return (uint64_t)CELL_MIN * (size_class % 2 ? 2 : 3) << ((size_class - 1) / 2);
}

static unsigned int cell_class(uint64_t size)
{
	unsigned int size_class = 0;

	while (cell_size(size_class) < size)
		size_class++;
	assert(size_class < N_CELL_SIZES);
	return size_class;
}

struct chunk_pool *chunk_pool_new(struct memory *memory)
{
	struct chunk_pool *pool = calloc(1, sizeof(*pool));

	if (pool)
		pool->memory = memory;
	return pool;
}

struct chunk_pool *chunk_pool_free(struct chunk_pool *pool)
{
	if (!pool)
		return NULL;
	for (uint32_t i = 0; i < N_PLACES; i++) {
		struct block *block;

		while ((block = chunk_pool_shrink(pool, i)))
			(void)block_free(pool->memory, block, NULL);
		for (int j = 0; j < N_CELL_SIZES; j++)
			assert(!pool->open[i][j]);
	}
	free(pool);
	return NULL;
}

static struct chunk *chunk_new(struct block *block, unsigned int size_class)
{
	uint32_t n_cells = (uint32_t)(block->size / cell_size(size_class));
	struct chunk *chunk;

	chunk = calloc(1, sizeof(*chunk) + (n_cells + 63) / 64 * sizeof(uint64_t));
	if (!chunk)
		return NULL;
	chunk->block = block;
	chunk->size_class = size_class;
	chunk->n_cells = n_cells;
	/* Bits behind the last cell are never free. */
	if (n_cells % 64)
		chunk->used[n_cells / 64] = UINT64_MAX << (n_cells % 64);
	block->chunk = chunk;
	return chunk;
}

static uint32_t chunk_take_cell(struct chunk *chunk)
{
	uint32_t bit;

	while (chunk->used[chunk->hint] == UINT64_MAX)
		chunk->hint++;
	bit = (uint32_t)__builtin_ctzll(~chunk->used[chunk->hint]);
	chunk->used[chunk->hint] |= (uint64_t)1 << bit;
	chunk->n_used++;
	return chunk->hint * 64 + bit;
}

static bool pool_take_cell(struct chunk_pool *pool, uint32_t place,
			   unsigned int size_class, struct block **ret_block,
			   uint32_t *ret_cell)
{
	struct chunk *chunk = pool->open[place][size_class];

	if (!chunk)
		return false;
	*ret_cell = chunk_take_cell(chunk);
	*ret_block = chunk->block;
	if (chunk->n_used == chunk->n_cells)
		DL_DELETE(pool->open[place][size_class], chunk);
	return true;
}

/*
 * Keeps a block for the next chunk. Returns: NULL; the block when another is kept
 * already.
 */
static struct block *pool_keep_block(struct chunk_pool *pool, struct block *block)
{
	struct block **spare = &pool->spare[block_place(block)];

	if (*spare)
		return block;
	*spare = block;
	return NULL;
}

/* Makes an unused block a chunk and takes a cell. Returns: 0; -ENOMEM. */
static int pool_add_chunk(struct chunk_pool *pool, unsigned int size_class,
			  struct block *fresh, struct block **ret_block,
			  uint32_t *ret_cell)
{
	struct chunk *chunk = chunk_new(fresh, size_class);

	pthread_mutex_lock(&pool->memory->lock);
	if (chunk) {
		DL_PREPEND(pool->open[block_place(fresh)][size_class], chunk);
		(void)pool_take_cell(pool, block_place(fresh), size_class, ret_block,
				     ret_cell);
	} else {
		/*
		 * The block may be mapped, so it can't be freed here: it is kept, or else
		 * leaked.
		 */
		(void)pool_keep_block(pool, fresh);
	}
	pthread_mutex_unlock(&pool->memory->lock);
	return chunk ? 0 : -ENOMEM;
}

static uint64_t cell_address(const struct block *block, unsigned int size_class,
			     uint32_t cell)
{
	return block->address + cell * cell_size(size_class);
}

int cell_get_in(struct chunk_pool *pool, struct block *fresh, uint64_t size,
		struct block **ret_block, uint32_t *ret_cell, uint64_t *ret_address)
{
	unsigned int size_class = cell_class(size);
	int r;

	r = pool_add_chunk(pool, size_class, fresh, ret_block, ret_cell);
	if (r == 0)
		*ret_address = cell_address(*ret_block, size_class, *ret_cell);
	return r;
}

int cell_get(struct chunk_pool *pool, uint32_t place, uint64_t size,
	     struct block **ret_block, uint32_t *ret_cell, uint64_t *ret_address)
{
	unsigned int size_class = cell_class(size);
	struct block *spare = NULL;
	bool found;

	pthread_mutex_lock(&pool->memory->lock);
	found = pool_take_cell(pool, place, size_class, ret_block, ret_cell);
	if (!found)
		spare = take_ptr(pool->spare[place]);
	pthread_mutex_unlock(&pool->memory->lock);
	if (spare)
		return cell_get_in(pool, spare, size, ret_block, ret_cell, ret_address);
	if (!found)
		return -EAGAIN;
	*ret_address = cell_address(*ret_block, size_class, *ret_cell);
	return 0;
}

/* Removes a chunk from the pool; its block is then an ordinary block. */
static struct block *chunk_dissolve(struct chunk_pool *pool, struct chunk *chunk)
{
	struct block *block = chunk->block;

	DL_DELETE(pool->open[block_place(block)][chunk->size_class], chunk);
	block->chunk = NULL;
	free(chunk);
	return block;
}

struct block *cell_put(struct chunk_pool *pool, struct block *block, uint32_t cell)
{
	struct chunk *chunk = block->chunk, **list;
	struct block *empty = NULL;

	pthread_mutex_lock(&pool->memory->lock);
	list = &pool->open[block_place(block)][chunk->size_class];
	if (chunk->n_used == chunk->n_cells)
		DL_PREPEND(*list, chunk);
	chunk->used[cell / 64] &= ~((uint64_t)1 << (cell % 64));
	chunk->hint = MIN(chunk->hint, cell / 64);
	chunk->n_used--;
	if (chunk->n_used == 0)
		empty = pool_keep_block(pool, chunk_dissolve(pool, chunk));
	pthread_mutex_unlock(&pool->memory->lock);
	return empty;
}

struct block *chunk_pool_shrink(struct chunk_pool *pool, uint32_t place)
{
	struct block *spare;

	pthread_mutex_lock(&pool->memory->lock);
	spare = take_ptr(pool->spare[place]);
	pthread_mutex_unlock(&pool->memory->lock);
	return spare;
}
