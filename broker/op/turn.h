/* SPDX-License-Identifier: MIT */
/*
 * Turns at the mover, which serves all users, and room in the broker's memory. All under
 * registry.lock.
 */
#pragma once

#include <stdbool.h>

struct op;

/*
 * Takes a turn, if the op is for the mover and has none. Returns: false when the op has
 * to wait; turn_give() of another op then starts the op.
 */
bool turn_take(struct op *op);

/* Takes a turn in any case, for an op that has a slot of the mover. */
void turn_take_beyond(struct op *op);

/* Gives up the op's turn, if any. Adds an op that waited for a turn to *ready. */
void turn_give(struct op *op, struct op **ready);

/*
 * Takes room for a piece of a copy, if the op has none. Returns: false when the op has to
 * wait; room_give() of another op then starts the op.
 */
bool room_take(struct op *op);

/* Gives up the op's room, if any. Adds an op that waited for room to *ready. */
void room_give(struct op *op, struct op **ready);

/* Adds the op to *ready if it waits for room: it runs again without. */
void room_wait_no_more(struct op *op, struct op **ready);
