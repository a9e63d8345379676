/* SPDX-License-Identifier: MIT */
/*
 * Slots of a worker's staging area. A released slot goes to a waiting op: the users take
 * turns, and the ops of a user come in their order.
 */
#pragma once

#include <stdbool.h>

struct owner;
struct worker;

/* An op's slot, and its place among the ops that wait for one. */
struct slot_waiter {
	int slot; /* -1: none yet */
	const struct owner *payer;
	struct slot_waiter *prev, *next;
	struct slot_waiter *behind; /* of the payer's first: the others, in order */
};

/*
 * Takes a slot of the staging area into waiter->slot, for an op of that payer.
 *
 * Returns: true; false when no slot is free: the waiter is queued. Another thread may
 * already run the op with a slot then, so the caller must not touch the op any more.
 */
bool staging_slot_get(struct worker *worker, struct slot_waiter *waiter,
		      const struct owner *payer);
/* Takes a slot only if one is free. Returns: whether; waiter->slot is -1 if not. */
bool staging_slot_try(struct worker *worker, struct slot_waiter *waiter);
/* Releases a slot. Returns: the waiter that got the slot (waiter->slot), or NULL. */
struct slot_waiter *staging_slot_put(struct worker *worker, unsigned int slot);
