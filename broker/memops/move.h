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
 * Returns: 0; -EDQUOT, -EMFILE, -ENOMEM with a refusal. The move may fail later: check
 * allocation_shares_block() when the op runs.
 */
int move_out(struct broker *broker, struct use *use, const struct caller *caller,
	     struct op **ready, struct refusal *refusal);

/* Whether the allocation shares its block with others. Under registry.lock. */
bool allocation_shares_block(const struct allocation *allocation);

/* Refuses an op whose move has failed. Returns: a negative errno. Under registry.lock. */
int refuse_shared(struct refusal *refusal, const struct allocation *allocation);

/*
 * An allocation in a shared block may need a block of its own, with a descriptor. The
 * owner is charged for both when others get the right to use the allocation, so uses of
 * others cost the owner nothing; else when a move begins. The move hands the charge to
 * the new block. Records have the charge as RECORD_DESCRIPTOR. All under registry.lock.
 */

/* Charges the owner, once. Returns: 0; -EDQUOT, -EMFILE with a refusal. */
int move_charge(struct broker *broker, struct allocation *allocation,
		struct refusal *refusal);

/* Ends the charge if the allocation was freed, or if only its owner has a right. */
void move_charge_settle(struct broker *broker, struct allocation *allocation);

/* Charges again for what the last broker had charged for. */
void move_charge_restore(struct broker *broker, struct allocation *allocation);
