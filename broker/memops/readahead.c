/* SPDX-License-Identifier: MIT */
#include "memops/readahead.h"

#include <utlist.h>

/* The limit of pieces for a worker, by the number of its slots. */
static unsigned int ahead_most(const struct worker *worker)
{
	return MAX(worker->staging.n_slots / 6, 2u);
}

struct ahead *ahead_find(const struct allocation *allocation, uint64_t offset,
			 uint64_t length)
{
	struct ahead *ahead = allocation->ahead;

	if (!ahead || ahead->offset != offset || ahead->length < length ||
	    ahead->n_writes != allocation->n_writes ||
	    allocation->state != ALLOCATION_LIVE)
		return NULL;
	return ahead;
}

struct ahead *ahead_free(struct broker *broker, struct ahead *ahead, struct op **ready)
{
	struct slot_waiter *waiter = NULL;

	if (!ahead)
		return NULL;
	if (ahead->slot >= 0)
		waiter = staging_slot_put(ahead->worker, (unsigned int)ahead->slot);
	if (waiter)
		op_push_ready(ready, container_of(waiter, struct op, staged));
	DL_DELETE(broker->aheads, ahead);
	ahead->worker->n_aheads--;
	ahead->allocation->ahead = NULL;
	free(ahead);
	return NULL;
}

/* Makes room: drops the oldest complete piece without a reader. */
static bool ahead_make_room(struct broker *broker, const struct worker *worker,
			    struct op **ready)
{
	struct ahead *ahead;

	if (worker->n_aheads < ahead_most(worker))
		return true;
	DL_FOREACH (broker->aheads, ahead) {
		if (ahead->worker == worker && !ahead->op) {
			ahead_free(broker, ahead, ready);
			return true;
		}
	}
	return false;
}

struct ahead *ahead_new(struct broker *broker, struct allocation *allocation,
			uint64_t offset, uint64_t length, struct op *op,
			struct op **ready)
{
	struct ahead *ahead;

	ahead_free(broker, allocation->ahead, ready);
	if (!ahead_make_room(broker, op->worker, ready))
		return NULL;
	ahead = calloc(1, sizeof(*ahead));
	if (!ahead)
		return NULL;
	ahead->allocation = allocation;
	ahead->offset = offset;
	ahead->length = length;
	ahead->n_writes = allocation->n_writes;
	ahead->op = op;
	ahead->slot = -1;
	ahead->worker = op->worker;
	DL_APPEND(broker->aheads, ahead);
	ahead->worker->n_aheads++;
	allocation->ahead = ahead;
	return ahead;
}
