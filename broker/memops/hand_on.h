/* SPDX-License-Identifier: MIT */
/*
 * Handing an allocation on to another owner: what it costs is charged to the new owner,
 * and the worker of the old one becomes a guest. The rights follow (permissions.c).
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

/* Undoes hand_on(), in the same taking of the lock. */
void hand_back(struct broker *broker, struct allocation *allocation, struct owner *to);
