/* SPDX-License-Identifier: MIT */
/* Turns at the mover, which serves all users. All under registry.lock. */
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
