/* SPDX-License-Identifier: MIT */
/* Turns at the mover: an op with a slot of the mover must not wait for a turn. */
#include "op/turn.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "model/owner.h"
#include "op/op.h"
#include "process/broker.h"
#include "process/processes.h"

#define MANY 20

static struct processes processes;
static struct broker broker = { .processes = &processes };
static struct owner owner;

static struct op an_op(int slot)
{
	return (struct op){
		.broker = &broker,
		.payer = &owner,
		.worker = &processes.mover,
		.staged.slot = slot,
	};
}

/* Takes the turns that a user has. Returns: how many. */
static unsigned int take_all(struct op ops[MANY])
{
	unsigned int n = 0;

	ops[0] = an_op(-1);
	while (turn_take(&ops[n])) {
		n++;
		cr_assert(lt(uint, n, MANY));
		ops[n] = an_op(-1);
	}
	return n;
}

Test(turn, a_user_has_so_many_and_the_next_waits)
{
	struct op ops[MANY], *ready = NULL;
	unsigned int n = take_all(ops);

	cr_expect(not(ops[n].has_turn));
	turn_give(&ops[0], &ready);
	cr_expect(eq(ptr, ready, &ops[n]));
	cr_expect(ops[n].has_turn);
}

/* Ops that have turns wait for slots. */
Test(turn, an_op_with_a_slot_never_waits)
{
	struct op ops[MANY], with_slot = an_op(7), *ready = NULL;
	unsigned int n = take_all(ops);

	cr_expect(turn_take(&with_slot));
	turn_give(&ops[0], &ready);
	cr_expect(eq(ptr, ready, NULL));
	turn_give(&with_slot, &ready);
	cr_expect(eq(ptr, ready, &ops[n]));
}

/* The payer of an op that has ended may be forgotten. */
Test(turn, an_op_without_turn_and_room_asks_nothing_of_the_payer)
{
	struct op op = { .payer = NULL }, *ready = NULL;

	turn_give(&op, &ready);
	room_give(&op, &ready);
	cr_expect(eq(ptr, ready, NULL));
}
