/* SPDX-License-Identifier: MIT */
/* Slots of a worker's staging area: whoever needs one gets it in turn. */
#pragma once

#include <stdbool.h>

struct worker;

/* A work waiting for a slot of the staging area. */
struct slot_waiter {
	int slot; /* -1: none yet */
	struct slot_waiter *prev, *next;
};

/*
 * Takes a slot of the staging area into waiter->slot.
 *
 * Returns: true; false when no slot is free: the waiter is queued. Another thread may
 * already run the op with a slot then, so the caller must not touch the op any more.
 */
bool staging_slot_get(struct worker *worker, struct slot_waiter *waiter);
/* Takes a slot only if one is free. waiter->slot: -1 if none is. */
bool staging_slot_try(struct worker *worker, struct slot_waiter *waiter);
/* Releases a slot. Returns: a waiting work that got the slot (waiter->slot), or NULL. */
struct slot_waiter *staging_slot_put(struct worker *worker, unsigned int slot);
