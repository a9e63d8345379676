/* SPDX-License-Identifier: MIT */
/*
 * Clusters. The blocks of a cluster begin together; each may be run by another thread of
 * the host. Their barrier has two halves: a block that arrives notes the number of the
 * round, and waits until this round is over. A waiting block asks again whenever a thread
 * runs the block.
 *
 * The mapped address of another block's shared memory has the rank of the block above the
 * offset.
 */
#include "cluster.h"

#include "access.h"
#include "table.h"

#include <pthread.h>

struct cluster {
	pthread_mutex_t lock;
	uint32_t n_blocks;
	uint32_t n_left;    /* blocks that have not ended */
	uint32_t n_alive;   /* threads; under lock */
	uint32_t n_arrived; /* under lock */
	uint32_t round;	    /* under lock */
	struct block *blocks[CLUSTER_MAX];
};

struct cluster *cluster_new(void)
{
	struct cluster *cluster = calloc(1, sizeof(*cluster));

	if (cluster)
		pthread_mutex_init(&cluster->lock, NULL);
	return cluster;
}

void cluster_join(struct cluster *cluster, struct block *block)
{
	block->cluster = cluster;
	cluster->blocks[cluster->n_blocks++] = block;
	cluster->n_left++;
	cluster->n_alive += block->n_threads;
}

void cluster_leave(struct block *block)
{
	struct cluster *cluster = block->cluster;
	bool last;

	if (!cluster)
		return;
	block->cluster = NULL;
	pthread_mutex_lock(&cluster->lock);
	last = !--cluster->n_left;
	pthread_mutex_unlock(&cluster->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&cluster->lock);
	free(cluster);
}

static void cluster_settle(struct cluster *cluster)
{
	if (!cluster->n_arrived || cluster->n_arrived < cluster->n_alive)
		return;
	cluster->n_arrived = 0;
	cluster->round++;
}

void cluster_exit(struct block *block, uint32_t n)
{
	struct cluster *cluster = block->cluster;

	if (!cluster)
		return;
	pthread_mutex_lock(&cluster->lock);
	cluster->n_alive -= n;
	cluster_settle(cluster);
	pthread_mutex_unlock(&cluster->lock);
}

static uint32_t cluster_round(struct cluster *cluster)
{
	uint32_t now;

	pthread_mutex_lock(&cluster->lock);
	now = cluster->round;
	pthread_mutex_unlock(&cluster->lock);
	return now;
}

void cluster_poll(struct block *block)
{
	uint32_t now;

	if (!block->cluster)
		return;
	now = cluster_round(block->cluster);
	for (uint32_t w = 0; w < block->n_warps; w++) {
		struct warp *warp = &block->warps[w];

		EACH_LANE(i, warp->at_cluster)
		{
			if (warp->lanes[i].cluster_round == now)
				continue;
			warp->at_cluster &= ~(1U << i);
			warp->ready |= 1U << i;
		}
	}
}

unsigned char *cluster_shared(const struct block *block, uint64_t offset,
			      uint32_t *ret_size)
{
	const struct cluster *cluster = block->cluster;
	const uint64_t rank = offset >> CLUSTER_RANK_SHIFT;

	if (!cluster || rank >= cluster->n_blocks)
		return NULL;
	*ret_size = cluster->blocks[rank]->shared_size;
	return cluster->blocks[rank]->shared;
}

/* A block without a cluster counts as a cluster of one block. */
static void cluster_arrive(struct warp *warp, const struct op *op, uint32_t mask)
{
	struct cluster *cluster = warp->block->cluster;

	(void)op;
	access_fence();
	if (!cluster)
		return;
	pthread_mutex_lock(&cluster->lock);
	EACH_LANE(i, mask)
	warp->lanes[i].cluster_round = cluster->round;
	cluster->n_arrived += (uint32_t)__builtin_popcount(mask);
	cluster_settle(cluster);
	pthread_mutex_unlock(&cluster->lock);
}

static void cluster_wait(struct warp *warp, const struct op *op, uint32_t mask)
{
	struct cluster *cluster = warp->block->cluster;
	uint32_t now, waits = 0;

	(void)op;
	access_fence();
	if (!cluster)
		return;
	now = cluster_round(cluster);
	EACH_LANE(i, mask)
	waits |= (uint32_t)(warp->lanes[i].cluster_round == now) << i;
	if (!waits)
		return;
	warp_park(warp, waits);
	warp->at_cluster |= waits;
}

/* The same place in the shared memory of the block of that rank. */
static void mapa(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t *from = warp_source(warp, op, 0), *rank = warp_source(warp, op, 1);
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	to[i] = WINDOW_CLUSTER + ((rank[i] & 0xff) << CLUSTER_RANK_SHIFT) +
		(from[i] & (((uint64_t)1 << CLUSTER_RANK_SHIFT) - 1));
}

#define WAYS (GROUP_ORDER | GROUP_SYNC)

/* clang-format off */
static const struct instruction instructions[] = {
	{ "barrier.cluster.arrive", "", WAYS, .handler = cluster_arrive },
	{ "barrier.cluster.wait", "", WAYS, .handler = cluster_wait },
	{ "mapa", "dau", .handler = mapa, .types = TYPE_BIT(TYPE_U64) },
};
/* clang-format on */

FAMILY(cluster);
