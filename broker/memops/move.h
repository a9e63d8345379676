/* SPDX-License-Identifier: MIT */
/* Moves of small allocations out of shared blocks. */
#pragma once

#include <stdbool.h>

struct allocation;
struct broker;
struct caller;
struct op;
struct refusal;
struct use;

/*
 * Makes an allocation ready for an op of the caller that hands its whole block to a
 * program or to another owner's worker. If the block is shared, a move is queued, unless
 * there is one. `use` belongs to an op that is not added yet: op_add() then puts the op
 * behind the move. Under registry.lock; then call op_start() with the ops that were made
 * ready.
 *
 * Returns: 0; -EMFILE, -ENOMEM with a refusal. The move may fail later: check
 * allocation_shares_block() when the op runs.
 */
int move_out(struct broker *broker, struct use *use, const struct caller *caller,
	     struct op **ready, struct refusal *refusal);

/* Whether the allocation shares its block with others. Under registry.lock. */
bool allocation_shares_block(const struct allocation *allocation);

/* Refuses an op whose move has failed. Returns: a negative errno. Under registry.lock. */
int refuse_shared(struct refusal *refusal, const struct allocation *allocation);

/*
 * Charges the owner for the descriptor of a block of the allocation's own. Returns: 0;
 * -EMFILE with a refusal. Under registry.lock.
 */
int descriptor_take(struct allocation *allocation, struct refusal *refusal);

/*
 * Gives that share back if the allocation still shares its block and needs no other.
 * Under registry.lock.
 */
void descriptor_settle(struct allocation *allocation);
