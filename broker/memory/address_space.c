/* SPDX-License-Identifier: MIT */
#include "memory/address_space.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/def.h"

static uint64_t words_of(const struct address_space *space, unsigned int order)
{
	uint64_t pieces = (uint64_t)1 << (space->n_orders - 1 - order);

	return (pieces + 63) / 64;
}

static bool piece_is_free(const struct address_space *space, unsigned int order,
			  uint64_t piece)
{
	return space->free_bits[order][piece / 64] >> (piece % 64) & 1;
}

static void piece_set(struct address_space *space, unsigned int order, uint64_t piece,
		      bool is_free)
{
	uint64_t bit = (uint64_t)1 << (piece % 64);

	if (is_free) {
		space->free_bits[order][piece / 64] |= bit;
		space->n_free[order]++;
		space->hint[order] = MIN(space->hint[order], piece / 64);
	} else {
		space->free_bits[order][piece / 64] &= ~bit;
		space->n_free[order]--;
	}
}

/* The lowest free piece of the order; there must be one. */
static uint64_t piece_first(struct address_space *space, unsigned int order)
{
	uint64_t word = space->hint[order];

	while (!space->free_bits[order][word])
		word++;
	space->hint[order] = word;
	return word * 64 + (uint64_t)__builtin_ctzll(space->free_bits[order][word]);
}

static unsigned int order_of(uint64_t size)
{
	unsigned int order = 0;

	while (order < SPACE_ORDERS && (SPACE_UNIT << order) < size)
		order++;
	return order;
}

int address_space_init(struct address_space *space, uint64_t base, uint64_t span)
{
	*space = (struct address_space){ .base = base, .n_orders = order_of(span) + 1 };
	assert(space->n_orders <= SPACE_ORDERS);
	for (unsigned int i = 0; i < space->n_orders; i++) {
		space->free_bits[i] = calloc(words_of(space, i), sizeof(uint64_t));
		if (!space->free_bits[i]) {
			address_space_deinit(space);
			return -ENOMEM;
		}
	}
	piece_set(space, space->n_orders - 1, 0, true);
	return 0;
}

void address_space_deinit(struct address_space *space)
{
	for (unsigned int i = 0; i < SPACE_ORDERS; i++)
		free(space->free_bits[i]);
	*space = (struct address_space){ 0 };
}

uint64_t address_space_get(struct address_space *space, uint64_t size)
{
	unsigned int order = order_of(size), from = order;
	uint64_t piece;

	while (from < space->n_orders && !space->n_free[from])
		from++;
	if (from >= space->n_orders)
		return 0;
	piece = piece_first(space, from);
	piece_set(space, from, piece, false);
	while (from > order) {
		from--;
		piece *= 2;
		piece_set(space, from, piece + 1, true);
	}
	return space->base + piece * (SPACE_UNIT << order);
}

int address_space_take(struct address_space *space, uint64_t address, uint64_t size)
{
	unsigned int order = order_of(size), from = order;
	uint64_t unit = SPACE_UNIT << order, piece, last;

	if (order >= space->n_orders || address < space->base ||
	    (address - space->base) % unit ||
	    (address - space->base) / unit >> (space->n_orders - 1 - order))
		return -EINVAL;
	piece = (address - space->base) / unit;
	while (from < space->n_orders && !piece_is_free(space, from, piece >> (from - order)))
		from++;
	if (from == space->n_orders)
		return -EINVAL;
	piece_set(space, from, piece >> (from - order), false);
	/* The halves beside the way down stay free. */
	while (from-- > order) {
		last = piece >> (from - order);
		piece_set(space, from, last ^ 1, true);
	}
	return 0;
}

void address_space_put(struct address_space *space, uint64_t address, uint64_t size)
{
	unsigned int order = order_of(size);
	uint64_t piece = (address - space->base) / (SPACE_UNIT << order);

	while (order + 1 < space->n_orders && piece_is_free(space, order, piece ^ 1)) {
		piece_set(space, order, piece ^ 1, false);
		piece /= 2;
		order++;
	}
	piece_set(space, order, piece, true);
}
