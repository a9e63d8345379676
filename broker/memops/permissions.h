/* SPDX-License-Identifier: MIT */
/* Kernels that use memory of other owners. */
#pragma once

#include <stdbool.h>

struct caller;
struct allocation;
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
 * Takes memory away from the op's worker which is mapped there for reading only and which
 * the op is about to write: guest_is_barred() is true then. Returns: 0; -ENOMEM with a
 * refusal. Under registry.lock, from begin(), with the writable uses marked.
 */
int guest_map_anew(struct op *op, struct refusal *refusal);

/*
 * Whether memory that a kernel is about to use is being taken away from its worker. Then
 * the op begins again afterwards. Under registry.lock, from begin().
 */
bool guest_is_barred(struct op *op);

/*
 * Whether an op's worker may have the memory mapped for writing: of sealed memory only for
 * a write that came before the seal. Under registry.lock.
 */
bool guest_may_write(const struct op *op, const struct use *use);

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
