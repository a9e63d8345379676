/* SPDX-License-Identifier: MIT */
/* Pieces of device memory out of blocks of physical memory. */
#pragma once

#include "base/def.h"

struct block;

struct heap {
	int device;
	struct block *blocks;
	uint64_t reserved; /* bytes of physical memory */
	uint64_t used;	   /* bytes of the pieces, as rounded */
	uint64_t reserved_high;
	uint64_t used_high;
};

/*
 * Finds or makes room for size bytes, aligned to 256 bytes at least.
 *
 * Returns: 0 with the address, -ENOMEM when the device has not that much left.
 */
int heap_alloc(struct heap *heap, uint64_t size, uint64_t *ret_address);

/* Takes a piece back by the first address; the block stays. */
void heap_free(struct heap *heap, uint64_t address);

/* Gives back empty blocks until no more than keep bytes are reserved. */
void heap_trim(struct heap *heap, uint64_t keep);
