/* SPDX-License-Identifier: MIT */
/*
 * The places of a folder's entries, by which listings go through the folder.
 *
 * An entry keeps its place while other entries come and go, so a listing shows each entry
 * once. A new entry takes the lowest free place. The table is a tree of nodes with 64
 * children each, and has no node without entries: neither its memory nor the time to find
 * the next entry depends on how many entries there once were.
 */
#pragma once

#include <stdint.h>

#define PLACES_MAX (1u << 24)

struct place_table {
	struct place_node *root; /* NULL: no entry */
	unsigned int n_levels;
	uint32_t n_used;
	struct place_node *spare; /* from place_table_reserve() on */
	uint32_t n_spare;
};

/* The table is empty. */
void place_table_deinit(struct place_table *table);

/* Makes sure that the next n objects find room. Returns: 0; -ENOMEM. */
int place_table_reserve(struct place_table *table, uint32_t n);
/* Gives back room that was reserved. */
void place_table_trim(struct place_table *table);

/* Returns: 0; -ENOMEM. */
int place_table_add(struct place_table *table, void *object, uint32_t *ret_place);

/* Puts an object at this place. Returns: 0; -EEXIST: the place is taken; -ENOMEM. */
int place_table_put(struct place_table *table, void *object, uint32_t place);

/* There is an object at this place. */
void place_table_remove(struct place_table *table, uint32_t place);

/* Another object stands at the place from now on. */
void place_table_replace(struct place_table *table, uint32_t place, void *object);

/* The first object at or after *place, and sets *place to its place. NULL at the end. */
void *place_table_next(const struct place_table *table, uint32_t *place);
