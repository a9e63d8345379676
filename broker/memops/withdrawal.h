/* SPDX-License-Identifier: MIT */
/*
 * Takes memory away from the worker of another owner than the allocation's.
 *
 * A withdrawal is an op. It waits for the kernels of this worker that have begun, but for
 * no others. Its use places (model/order.h), so later writes come when the worker has
 * lost the memory, and the next kernel of the worker maps the memory anew. A kernel
 * queued before the withdrawal waits for the end of the withdrawal. The permissions of
 * the kernel are checked when the kernel begins.
 *
 * The rights of the worker's owner have changed (permissions.c), or the worker has the
 * memory for reading only and an op is about to write: when the worker mapped the memory,
 * the memory was sealed, or the caller was not in the group.
 *
 * All under registry.lock.
 */
#pragma once

#include <stdbool.h>

struct allocation;
struct broker;
struct op;
struct refusal;
struct use;
struct worker;

/* Whether a withdrawal from the worker is queued and does not run yet. */
bool withdrawal_is_queued(const struct allocation *allocation,
			  const struct worker *worker);

/*
 * wanted: by the first op behind the withdrawal, which needs another mapping; NULL: the
 * rights have changed. Returns: 0; -ENOMEM. Then call op_start().
 */
int withdrawal_add(struct broker *broker, struct allocation *allocation,
		   struct worker *worker, const struct use *wanted, struct op **ready);

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
