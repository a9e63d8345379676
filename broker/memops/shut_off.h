/* SPDX-License-Identifier: MIT */
/*
 * Ends what guests do with memory that is shut off from them: by a change of rights, or
 * since the memory was freed. A guest is a user who does not own the allocation. Root is
 * none.
 *
 * The work of guests may wait for what they alone can end: a hold, a kernel, memory of
 * their own, a worker that they have stopped. The owner's work would wait as long.
 */
#pragma once

struct allocation;
struct op;
struct refusal;
struct worker;

/*
 * Guests' ops that wait are turned away. Copies in pieces end before their next piece,
 * and the worker that does not answer a piece within the time limit is ended. Under
 * registry.lock. Returns: 0; -ENOMEM, perhaps with some ended.
 */
int guests_turn_away(struct allocation *allocation, struct op **ready);

/*
 * Ends workers in which guests' ops that have begun still use the allocation of an op:
 * the ops before this one, in one worker, or in all (NULL). Under registry.lock.
 */
void guests_end_before(const struct op *op, const struct worker *worker);

/* The sentence of an op that was shut off after it began. Under registry.lock. */
int guest_refuse_next_piece(const struct op *op, struct refusal *refusal);
