/* SPDX-License-Identifier: MIT */
#include "model/place_table.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/def.h"

#define CHILD_BITS 6u
#define LEVELS_MAX 4u

_Static_assert(PLACES_MAX == 1u << (CHILD_BITS * LEVELS_MAX), "the highest place");

struct place_node {
	uint64_t used;			  /* children that are there */
	uint64_t full;			  /* children without a free place */
	void *children[1u << CHILD_BITS]; /* nodes; on level 0 objects */
};

/* ---- nodes ---- */

/* Returns: an empty node; NULL: no memory. */
static struct place_node *node_take(struct place_table *table)
{
	struct place_node *node = table->spare;

	if (!node)
		return calloc(1, sizeof(*node));
	table->spare = node->children[0];
	node->children[0] = NULL;
	table->n_spare--;
	return node;
}

/* Places below one child of a node on this level. */
static uint32_t places_of_child(unsigned int level)
{
	return 1u << (CHILD_BITS * level);
}

static uint64_t bit_of(uint32_t child)
{
	return UINT64_C(1) << child;
}

static void node_set(struct place_node *node, uint32_t child, void *object, bool full)
{
	node->children[child] = object;
	node->used |= bit_of(child);
	if (full)
		node->full |= bit_of(child);
}

static int node_put(struct place_table *table, struct place_node *node,
		    unsigned int level, uint32_t place, void *object)
{
	uint32_t child = place / places_of_child(level);
	struct place_node *below = level ? node->children[child] : object;
	int r = -EEXIST;

	if (level) {
		below = below ?: node_take(table);
		r = below ? node_put(table, below, level - 1,
				     place % places_of_child(level), object)
			  : -ENOMEM;
		if (r < 0 && below && !below->used)
			free(below);
	} else if (!node->children[child]) {
		r = 0;
	}
	if (r == 0)
		node_set(node, child, below, !level || below->full == UINT64_MAX);
	return r;
}

/* Returns: whether the node is empty now. */
static bool node_remove(struct place_node *node, unsigned int level, uint32_t place)
{
	uint32_t child = place / places_of_child(level);

	assert(node->used & bit_of(child));
	node->full &= ~bit_of(child);
	if (level && !node_remove(node->children[child], level - 1,
				  place % places_of_child(level)))
		return false;
	if (level)
		free(node->children[child]);
	node->children[child] = NULL;
	node->used &= ~bit_of(child);
	return !node->used;
}

static void *node_next(const struct place_node *node, unsigned int level, uint32_t *place)
{
	uint32_t first = *place / places_of_child(level);

	for (uint64_t left = node->used & UINT64_MAX << first; left; left &= left - 1) {
		uint32_t child = (uint32_t)__builtin_ctzll(left);
		uint32_t rest = child == first ? *place % places_of_child(level) : 0;
		void *object = node->children[child];

		if (level)
			object = node_next(object, level - 1, &rest);
		if (object) {
			*place = child * places_of_child(level) + rest;
			return object;
		}
	}
	return NULL;
}

/* ---- tables ---- */

/* Places in the tree as it is. */
static uint32_t places_of(const struct place_table *table)
{
	return table->root ? places_of_child(table->n_levels) : 0;
}

static uint32_t find_free(const struct place_table *table)
{
	const struct place_node *node = table->root;
	uint32_t place = 0, child;

	if (node && node->full == UINT64_MAX)
		return places_of(table);
	for (unsigned int level = table->n_levels; node && level-- > 0;) {
		child = (uint32_t)__builtin_ctzll(~node->full);
		place += child * places_of_child(level);
		node = level ? node->children[child] : NULL;
	}
	return place;
}

/* Makes room for more places, above those that there are. Returns: 0; -ENOMEM. */
static int table_grow(struct place_table *table)
{
	struct place_node *root;

	/* A root that is empty may as well be higher. */
	if (!table->root || table->root->used) {
		root = node_take(table);
		if (!root)
			return -ENOMEM;
		if (table->root)
			node_set(root, 0, table->root, table->root->full == UINT64_MAX);
		table->root = root;
	}
	table->n_levels++;
	return 0;
}

/* Takes nodes away from the top that nothing needs. */
static void table_shrink(struct place_table *table)
{
	struct place_node *root;

	while ((root = table->root) &&
	       (!root->used || (table->n_levels > 1 && root->used == 1))) {
		table->root = root->children[0];
		table->n_levels = table->root ? table->n_levels - 1 : 0;
		free(root);
	}
}

int place_table_put(struct place_table *table, void *object, uint32_t place)
{
	int r = place < PLACES_MAX ? 0 : -ENOMEM;

	while (r == 0 && place >= places_of(table))
		r = table_grow(table);
	if (r == 0)
		r = node_put(table, table->root, table->n_levels - 1, place, object);
	if (r < 0)
		table_shrink(table);
	else
		table->n_used++;
	return r;
}

int place_table_add(struct place_table *table, void *object, uint32_t *ret_place)
{
	*ret_place = find_free(table);
	return place_table_put(table, object, *ret_place);
}

void place_table_remove(struct place_table *table, uint32_t place)
{
	assert(place < places_of(table));
	node_remove(table->root, table->n_levels - 1, place);
	table_shrink(table);
	table->n_used--;
}

void place_table_replace(struct place_table *table, uint32_t place, void *object)
{
	struct place_node *node = table->root;

	assert(place < places_of(table));
	for (unsigned int level = table->n_levels - 1; level > 0; level--) {
		node = node->children[place / places_of_child(level)];
		place %= places_of_child(level);
	}
	assert(node->used & bit_of(place));
	node->children[place] = object;
}

void *place_table_next(const struct place_table *table, uint32_t *place)
{
	if (*place >= places_of(table))
		return NULL;
	return node_next(table->root, table->n_levels - 1, place);
}

/* ---- room ---- */

int place_table_reserve(struct place_table *table, uint32_t n)
{
	uint64_t n_after = (uint64_t)table->n_used + n;
	unsigned int n_levels = MAX(table->n_levels, 1u);
	uint32_t n_nodes;

	if (n_after > PLACES_MAX)
		return -ENOMEM;
	while (n_after > places_of_child(n_levels))
		n_levels++;
	/*
	 * The lowest places come first, so each new node is filled before the next one
	 * is made. One more on each level may be begun, and one put above each root.
	 */
	n_nodes = n / 32 + 2 * n_levels;
	while (table->n_spare < n_nodes) {
		struct place_node *node = calloc(1, sizeof(*node));

		if (!node)
			return -ENOMEM;
		node->children[0] = table->spare;
		table->spare = node;
		table->n_spare++;
	}
	return 0;
}

void place_table_trim(struct place_table *table)
{
	while (table->spare)
		free(node_take(table));
}

void place_table_deinit(struct place_table *table)
{
	assert(!table->root);
	place_table_trim(table);
}
