/* SPDX-License-Identifier: MIT */
/* Kernels that use memory of other owners. */
#pragma once

#include <stdbool.h>

struct caller;
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
 * Whether memory that a kernel is about to use is being taken away from its worker. Then
 * the op begins again afterwards. Under registry.lock, from begin().
 */
bool guest_is_barred(struct op *op);
