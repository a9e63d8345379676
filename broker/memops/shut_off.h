/* SPDX-License-Identifier: MIT */
/*
 * Ends guests' work on memory that is shut off from them: by a change of rights, by a
 * seal where they write, or since the memory was freed. A guest is any user but the owner
 * and root.
 *
 * The work of guests may wait for something under their control alone: a hold, a kernel,
 * memory of their own, a stopped worker. The owner's work would wait as long.
 */
#pragma once

struct allocation;
struct op;
struct refusal;
struct worker;

/*
 * Turns away guests' waiting ops. Copies in pieces end before their next piece. A worker
 * is ended if it does not answer a piece within the time limit. Under registry.lock.
 * Returns: 0; -ENOMEM, perhaps with some ended.
 */
int guests_turn_away(struct allocation *allocation, struct op **ready);

/*
 * Ends workers whose guests' ops still use the allocation of an op: the ops before this
 * one, in one worker, or in all (NULL). Under registry.lock.
 */
void guests_end_before(const struct op *op, const struct worker *worker);

/* Sets the sentence of an op shut off after its begin. Under registry.lock. */
int guest_refuse_next_piece(const struct op *op, struct refusal *refusal);
