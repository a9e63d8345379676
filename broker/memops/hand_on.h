/* SPDX-License-Identifier: MIT */
/*
 * Handing an allocation on to another owner. The new owner is charged for the allocation.
 * The old owner's worker becomes a guest of the memory's block, as it still has the block
 * mapped. permissions.c then takes the old owner's rights.
 */
#pragma once

struct allocation;
struct broker;
struct owner;
struct refusal;

/*
 * Whether the allocation can be handed on now: its memory is the broker's, in a block of
 * its own, and nothing is under way. Under registry.lock, like the next.
 * Returns: 0; -EOPNOTSUPP, -EBUSY with a refusal.
 */
int hand_on_check(const struct allocation *allocation, struct refusal *refusal);

/*
 * Hands an allocation that was checked to another owner. Returns: 0; -EDQUOT, the -errno
 * of a share or -ENOMEM with a refusal, and nothing is changed.
 */
int hand_on(struct broker *broker, struct allocation *allocation, struct owner *to,
	    struct refusal *refusal);

/* Undoes hand_on(), before registry.lock has been let go. */
void hand_back(struct broker *broker, struct allocation *allocation, struct owner *to);
