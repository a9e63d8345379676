/* SPDX-License-Identifier: MIT */
/* Kernels that use memory of other owners. */
#pragma once

#include <stdbool.h>

struct caller;
struct allocation;
struct broker;
struct op;
struct refusal;
struct use;

/*
 * Makes the allocation of a use ready for a kernel, not added yet, in the worker of
 * another owner; nothing to do for the owner's own. As move_out().
 */
int guest_use(struct op *op, struct use *use, const struct caller *caller,
	      struct op **ready, struct refusal *refusal);

/*
 * Before a seal: workers of guests with a mapping for writing lose the memory. Later
 * reads wait until the workers have lost the memory, as long as writes wait after a
 * chmod. Returns: 0; -ENOMEM. Then call op_start(). Under registry.lock.
 */
int guests_seal(struct broker *broker, struct allocation *allocation, struct op **ready);

/*
 * Whether an op's worker may have the memory mapped for writing: of sealed memory only
 * for a write that began before the seal. Under registry.lock.
 */
bool guest_may_write(const struct op *op, const struct use *use);

/*
 * Whether the use would write sealed memory in a guest's worker, and the op has not
 * begun. Under registry.lock.
 */
bool guest_comes_after_seal(const struct op *op, const struct use *use);

/*
 * Whether the user who asked for an op that runs in another worker may still use the
 * allocation so. Under registry.lock.
 */
bool guest_may_ask(const struct op *op, const struct use *use);

/*
 * Whether an op's owner may still use the allocation as its worker maps it; and whether
 * that worker would get more than the allocation, since a move has failed. Under
 * registry.lock.
 */
bool guest_may_use(const struct op *op, const struct use *use);
bool guest_shares_block(const struct op *op, const struct allocation *allocation);
