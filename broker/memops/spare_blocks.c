/* SPDX-License-Identifier: MIT */
#include "memops/spare_blocks.h"

#include "memops/give_back.h"
#include "memory/slab.h"
#include "model/owner.h"
#include "model/registry.h"
#include "process/broker.h"

#define ANY_TIME INT64_MAX
/* Owners looked at under one taking of the lock. */
#define WALK_PIECE 64

/* A walk along all owners: each is passed once, however many have blocks. */
struct spare_walk {
	uint32_t first, last; /* places */
	int64_t before_ms;
	uint32_t slot; /* the next */
};

/* Returns: NULL: the owner has none. */
static struct block *take_of(const struct spare_walk *walk, const struct owner *owner)
{
	struct block *block = NULL;

	for (uint32_t i = walk->first; owner->pool && i <= walk->last && !block; i++)
		block = slab_pool_shrink(owner->pool, i, walk->before_ms);
	return block;
}

/*
 * Returns: NULL: the next piece of the walk has none. Sets *ret_owner: NULL: the walk is
 * over. Under registry.lock.
 */
static struct block *take_next(const struct broker *broker, struct spare_walk *walk,
			       struct owner **ret_owner)
{
	for (unsigned int i = 0; i < WALK_PIECE; i++, walk->slot++) {
		struct block *block;

		*ret_owner = handle_table_next(&broker->registry->owners, &walk->slot);
		if (!*ret_owner)
			return NULL;
		block = take_of(walk, *ret_owner);
		if (block)
			return block;
	}
	return NULL;
}

static void give_back_all(struct broker *broker, struct spare_walk walk)
{
	struct owner *owner;
	struct block *block;

	do {
		pthread_mutex_lock(&broker->registry->lock);
		block = take_next(broker, &walk, &owner);
		pthread_mutex_unlock(&broker->registry->lock);
		if (block)
			block_give_back(broker, owner, block, GIVE_BACK_UNTOLD);
	} while (owner);
}

void spare_blocks_give_back_old(struct broker *broker, int64_t before_ms)
{
	give_back_all(broker, (struct spare_walk){ .last = N_PLACES - 1,
						   .before_ms = before_ms });
}

void spare_blocks_give_back_at(struct broker *broker, uint32_t place)
{
	give_back_all(broker, (struct spare_walk){ .first = place,
						   .last = place,
						   .before_ms = ANY_TIME });
}

void spare_block_give_back(struct broker *broker, struct owner *owner, uint32_t place)
{
	struct block *block = NULL;

	pthread_mutex_lock(&broker->registry->lock);
	if (owner->pool)
		block = slab_pool_shrink(owner->pool, place, ANY_TIME);
	pthread_mutex_unlock(&broker->registry->lock);
	if (block)
		block_give_back(broker, owner, block, GIVE_BACK_UNTOLD);
}
