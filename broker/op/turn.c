/* SPDX-License-Identifier: MIT */
/*
 * Turns at the mover.
 *
 * The mover serves all users, in the order of arrival. So that a user who has thousands
 * of ops ready does not stand in front of everybody, a user has only N_TURNS ops at the
 * mover at a time: enough to keep the mover's threads busy. Further ops of the user wait
 * here for the end of one of them.
 *
 * An op keeps its turn until it leaves the order, also when it is sent again; a copy
 * between two workers, until the mover has done a piece. Nobody waits for a turn with a
 * slot of the mover in hand, since an op with a turn may wait for a slot. So an op with a
 * slot takes a turn in any case. The user's other ops then wait until there are fewer,
 * which leaves the last slots to other users.
 */
#include "op/turn.h"

#include <utlist.h>

#include "model/owner.h"
#include "op/op.h"
#include "process/processes.h"

#define N_TURNS 12
/* Pieces of up to 1 MiB, for each user. */
#define N_ROOMS 16

void turn_take_beyond(struct op *op)
{
	op->payer->n_turns++;
	op->has_turn = true;
}

bool turn_take(struct op *op)
{
	struct owner *payer = op->payer;

	if (op->has_turn || op->worker != &op->broker->processes->mover)
		return true;
	if (op->staged.slot < 0 && payer->n_turns >= N_TURNS) {
		DL_APPEND2(payer->waiting, op, prev_waiting, next_waiting);
		return false;
	}
	turn_take_beyond(op);
	return true;
}

void turn_give(struct op *op, struct op **ready)
{
	struct owner *payer = op->payer;
	struct op *next;

	/* Without a charge the payer may be gone. */
	if (!op->has_turn)
		return;
	next = payer->waiting;
	op->has_turn = false;
	payer->n_turns--;
	if (!next || payer->n_turns >= N_TURNS)
		return;
	DL_DELETE2(payer->waiting, next, prev_waiting, next_waiting);
	turn_take_beyond(next);
	op_push_ready(ready, next);
}

bool room_take(struct op *op)
{
	struct owner *payer = op->payer;

	if (op->has_room)
		return true;
	if (payer->n_rooms >= N_ROOMS) {
		op->waits_for_room = true;
		DL_APPEND2(payer->waiting_for_room, op, prev_waiting, next_waiting);
		return false;
	}
	payer->n_rooms++;
	op->has_room = true;
	return true;
}

void room_wait_no_more(struct op *op, struct op **ready)
{
	if (!op->waits_for_room)
		return;
	op->waits_for_room = false;
	DL_DELETE2(op->payer->waiting_for_room, op, prev_waiting, next_waiting);
	op_push_ready(ready, op);
}

void room_give(struct op *op, struct op **ready)
{
	struct op *next;

	if (!op->has_room)
		return;
	next = op->payer->waiting_for_room;
	op->has_room = false;
	op->payer->n_rooms--;
	if (!next)
		return;
	room_wait_no_more(next, ready);
	room_take(next);
}
