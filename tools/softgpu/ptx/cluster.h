/* SPDX-License-Identifier: MIT */
/* Blocks that are resident together, wait for each other and share their memory. */
#pragma once

#include "warp.h"

#define CLUSTER_MAX	   16
#define CLUSTER_RANK_SHIFT 24 /* of an address in WINDOW_CLUSTER */

struct cluster;

/* Returns: NULL without memory. */
struct cluster *cluster_new(void);

/*
 * A block begins as the next block of a cluster, and ends: the last block frees the
 * cluster.
 */
void cluster_join(struct cluster *cluster, struct block *block);
void cluster_leave(struct block *block);

/* Threads of a block have ended. */
void cluster_exit(struct block *block, uint32_t n);

/* Makes blocks ready that waited for a barrier now complete. */
void cluster_poll(struct block *block);

/* Shared memory of another block, or NULL. */
unsigned char *cluster_shared(const struct block *block, uint64_t offset,
			      uint32_t *ret_size);
