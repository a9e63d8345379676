/* SPDX-License-Identifier: MIT */
/*
 * Takes memory away from the worker of another owner than the allocation's.
 *
 * A withdrawal is an op. It waits for the kernels of this worker that have begun, but for
 * no others, and for an earlier withdrawal from the worker. Its use places
 * (model/order.h), so later writes come when the worker has lost the memory, and the next
 * kernel of the worker maps the memory anew. A kernel queued before the withdrawal waits
 * for the end of the withdrawal. The permissions of the kernel are checked when the
 * kernel begins.
 *
 * The rights of the worker's owner have changed (permissions.c), or the memory is being
 * sealed; or an op begins that needs another mapping than the worker has. The op may
 * write and the mapping is for reading only: when it was made, the caller was not in the
 * group. Or the mapping is for writing, from before a seal.
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

/* Whether a withdrawal from the worker is queued and does not run yet. seals: one that
 * later reads wait for. */
bool withdrawal_is_queued(const struct allocation *allocation,
			  const struct worker *worker, bool seals);

/*
 * wanted: by the first op behind the withdrawal, which needs another mapping; NULL: the
 * rights have changed, or the memory is being sealed. seals: later reads come when the
 * worker has lost the memory, too. Returns: 0; -ENOMEM. Then call op_start().
 */
int withdrawal_add(struct broker *broker, struct allocation *allocation,
		   struct worker *worker, const struct use *wanted, bool seals,
		   struct op **ready);

/*
 * Before a seal: later reads wait for the withdrawals under way, too. Returns: 0;
 * -ENOMEM. Then call op_start().
 */
int withdrawals_seal(struct broker *broker, struct allocation *allocation,
		     struct op **ready);

/*
 * Takes memory away from the op's worker where the op needs another mapping than the
 * worker has: guest_is_barred() is true then. Returns: 0; -ENOMEM with a refusal. Under
 * registry.lock, from begin(), with the writable uses marked.
 */
int guest_map_anew(struct op *op, struct refusal *refusal);

/*
 * Whether memory that a kernel is about to use is being taken away from its worker. Then
 * the op begins again afterwards. Under registry.lock, from begin().
 */
bool guest_is_barred(struct op *op);

/*
 * Whether users who have lost their right still have the memory of the op, after which a
 * program will write outside of the order of uses. Then the op begins again afterwards.
 * Under registry.lock, from begin().
 */
bool writer_is_barred(struct op *op);
