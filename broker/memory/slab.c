/* SPDX-License-Identifier: MIT */
#include "memory/slab.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/def.h"
#include "memory/block.h"

/* Cell sizes: 256 bytes (the alignment of cuMemAlloc) times 1, 2, 3, 4, 6, 8, 12, ... */
#define CELL_MIN     256u
#define N_CELL_SIZES 24

struct slab {
	struct block *block;
	unsigned int size_class;
	uint32_t n_cells, n_used;
	uint32_t hint; /* the words before this index have no free cell */
	struct slab *prev, *next;
	uint64_t used[];
};

/* Slabs with a free cell, by place and size; full slabs are in no list. */
struct slab_pool {
	struct memory *memory;
	struct slab *open[N_PLACES][N_CELL_SIZES];
	struct block *spare[N_PLACES]; /* for the next slab of any size */
	int64_t spare_ms[N_PLACES];    /* CLOCK_MONOTONIC: kept since */
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

struct slab_pool *slab_pool_new(struct memory *memory)
{
	struct slab_pool *pool = calloc(1, sizeof(*pool));

	if (pool)
		pool->memory = memory;
	return pool;
}

struct slab_pool *slab_pool_free(struct slab_pool *pool)
{
	if (!pool)
		return NULL;
	for (uint32_t i = 0; i < N_PLACES; i++) {
		struct block *block;

		while ((block = slab_pool_shrink(pool, i, INT64_MAX)))
			block_free(pool->memory, block);
		for (int j = 0; j < N_CELL_SIZES; j++)
			assert(!pool->open[i][j]);
	}
	free(pool);
	return NULL;
}

static struct slab *slab_new(struct block *block, unsigned int size_class)
{
	uint32_t n_cells = (uint32_t)(block->size / cell_size(size_class));
	struct slab *slab;

	slab = calloc(1, sizeof(*slab) + (n_cells + 63) / 64 * sizeof(uint64_t));
	if (!slab)
		return NULL;
	slab->block = block;
	slab->size_class = size_class;
	slab->n_cells = n_cells;
	/* Bits behind the last cell are never free. */
	if (n_cells % 64)
		slab->used[n_cells / 64] = UINT64_MAX << (n_cells % 64);
	block->slab = slab;
	return slab;
}

static uint32_t slab_take_cell(struct slab *slab)
{
	uint32_t bit;

	while (slab->used[slab->hint] == UINT64_MAX)
		slab->hint++;
	bit = (uint32_t)__builtin_ctzll(~slab->used[slab->hint]);
	slab->used[slab->hint] |= (uint64_t)1 << bit;
	slab->n_used++;
	return slab->hint * 64 + bit;
}

static bool pool_take_cell(struct slab_pool *pool, uint32_t place,
			   unsigned int size_class, struct block **ret_block,
			   uint32_t *ret_cell)
{
	struct slab *slab = pool->open[place][size_class];

	if (!slab)
		return false;
	*ret_cell = slab_take_cell(slab);
	*ret_block = slab->block;
	if (slab->n_used == slab->n_cells)
		DL_DELETE(pool->open[place][size_class], slab);
	return true;
}

/*
 * Keeps a block for the next slab. Returns: NULL; the block when another is kept
 * already.
 */
static struct block *pool_keep_block(struct slab_pool *pool, struct block *block)
{
	struct block **spare = &pool->spare[block->place];

	if (*spare)
		return block;
	*spare = block;
	pool->spare_ms[block->place] = clock_ms();
	return NULL;
}

/* Makes an unused block a slab and takes a cell. Returns: 0; -ENOMEM. */
static int pool_add_slab(struct slab_pool *pool, unsigned int size_class,
			 struct block *fresh, struct block **ret_block,
			 uint32_t *ret_cell)
{
	struct slab *slab = slab_new(fresh, size_class);

	if (slab)
		block_save(pool->memory, fresh, size_class + 1);
	pthread_mutex_lock(&pool->memory->lock);
	if (slab) {
		DL_PREPEND(pool->open[fresh->place][size_class], slab);
		(void)pool_take_cell(pool, fresh->place, size_class, ret_block, ret_cell);
	} else {
		/*
		 * The block may be mapped, so it can't be freed here: it is kept, or else
		 * leaked.
		 */
		(void)pool_keep_block(pool, fresh);
	}
	pthread_mutex_unlock(&pool->memory->lock);
	return slab ? 0 : -ENOMEM;
}

static uint64_t cell_address(const struct block *block, unsigned int size_class,
			     uint32_t cell)
{
	return block->address + cell * cell_size(size_class);
}

int cell_get_in(struct slab_pool *pool, struct block *fresh, uint64_t size,
		struct block **ret_block, uint32_t *ret_cell, uint64_t *ret_address)
{
	unsigned int size_class = cell_class(size);
	int r;

	r = pool_add_slab(pool, size_class, fresh, ret_block, ret_cell);
	if (r == 0)
		*ret_address = cell_address(*ret_block, size_class, *ret_cell);
	return r;
}

int cell_get(struct slab_pool *pool, uint32_t place, uint64_t size,
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

int slab_restore(struct slab_pool *pool, struct block *block, uint32_t size_class)
{
	struct slab *slab;

	if (size_class >= N_CELL_SIZES || cell_size(size_class) > block->size)
		return -EINVAL;
	slab = slab_new(block, size_class);
	if (!slab)
		return -ENOMEM;
	DL_PREPEND(pool->open[block->place][size_class], slab);
	return 0;
}

int cell_restore(struct slab_pool *pool, struct block *block, uint32_t cell,
		 uint64_t address)
{
	struct slab *slab = block->slab;
	uint64_t bit = (uint64_t)1 << (cell % 64);

	if (cell >= slab->n_cells || slab->used[cell / 64] & bit ||
	    address != cell_address(block, slab->size_class, cell))
		return -EINVAL;
	slab->used[cell / 64] |= bit;
	if (++slab->n_used == slab->n_cells)
		DL_DELETE(pool->open[block->place][slab->size_class], slab);
	return 0;
}

/* Removes a slab from the pool; its block is then an ordinary block. */
static struct block *slab_dissolve(struct slab_pool *pool, struct slab *slab)
{
	struct block *block = slab->block;

	DL_DELETE(pool->open[block->place][slab->size_class], slab);
	block->slab = NULL;
	free(slab);
	return block;
}

struct block *cell_put(struct slab_pool *pool, struct block *block, uint32_t cell)
{
	struct slab *slab = block->slab, **list;
	struct block *empty = NULL;

	pthread_mutex_lock(&pool->memory->lock);
	list = &pool->open[block->place][slab->size_class];
	if (slab->n_used == slab->n_cells)
		DL_PREPEND(*list, slab);
	slab->used[cell / 64] &= ~((uint64_t)1 << (cell % 64));
	slab->hint = MIN(slab->hint, cell / 64);
	slab->n_used--;
	if (slab->n_used == 0)
		empty = pool_keep_block(pool, slab_dissolve(pool, slab));
	pthread_mutex_unlock(&pool->memory->lock);
	return empty;
}

struct block *slab_pool_shrink(struct slab_pool *pool, uint32_t place, int64_t before_ms)
{
	struct block *spare = NULL;

	pthread_mutex_lock(&pool->memory->lock);
	if (pool->spare_ms[place] < before_ms)
		spare = take_ptr(pool->spare[place]);
	pthread_mutex_unlock(&pool->memory->lock);
	return spare;
}
