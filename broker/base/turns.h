/* SPDX-License-Identifier: MIT */
/*
 * A queue in which users take turns: each user's first is served in the order in which
 * the users came, and then the user stands behind all others. So the many of one user
 * delay another by one.
 *
 * Adding and removing cost the same however many wait, and need no memory. The owner of
 * the queue has a lock for it.
 */
#pragma once

#include "base/def.h"

#define TURNS_CHAINS 1024

/* One that waits; part of what waits. */
struct turn {
	uint64_t whose;
	struct turn *prev, *next; /* first: among the firsts of all users */
	struct turn *before,
		*behind; /* of the same user; the first's `before` is the last */
	struct turn *chain_prev, *chain; /* first: with the same hash */
};

struct turns {
	struct turn *firsts; /* in the order of service */
	struct turn *chains[TURNS_CHAINS];
	unsigned int n;
};

void turns_add(struct turns *turns, uint64_t whose, struct turn *turn);

/* The turn waits. */
void turns_remove(struct turns *turns, struct turn *turn);

/* Puts the user behind all others, if any turn of the user waits. */
void turns_put_last(struct turns *turns, uint64_t whose);

/*
 * Takes the first of the first user who may be served. `may` NULL: each may. Returns:
 * NULL when there is none.
 */
struct turn *turns_take(struct turns *turns, bool (*may)(void *userdata, uint64_t whose),
			void *userdata);
