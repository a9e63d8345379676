/* SPDX-License-Identifier: MIT */
/*
 * A range of addresses, given out in pieces: a buddy allocator for power-of-two pieces of
 * at least 2 MiB. The range is many times larger than the memory, so rounding and
 * fragmentation waste addresses but no memory.
 */
#pragma once

#include <stdint.h>

#define SPACE_UNIT   ((uint64_t)2 << 20)
#define SPACE_ORDERS 24

struct address_space {
	uint64_t base;
	unsigned int n_orders;
	uint64_t *free_bits[SPACE_ORDERS]; /* a bit for each piece, set when free */
	uint64_t n_free[SPACE_ORDERS];
	uint64_t hint[SPACE_ORDERS]; /* the words before this index have no free piece */
};

/* span is a power of two, at least SPACE_UNIT. Returns: 0; -ENOMEM. */
int address_space_init(struct address_space *space, uint64_t base, uint64_t span);
void address_space_deinit(struct address_space *space);

/* Returns: an address aligned to size rounded up to a power of two; 0 when full. */
uint64_t address_space_get(struct address_space *space, uint64_t size);
/*
 * Takes the piece at an address, as an earlier address_space_get() gave it.
 * Returns: 0; -EINVAL when there is no such piece, or it is taken.
 */
int address_space_take(struct address_space *space, uint64_t address, uint64_t size);

void address_space_put(struct address_space *space, uint64_t address, uint64_t size);
