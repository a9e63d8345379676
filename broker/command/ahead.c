/* SPDX-License-Identifier: MIT */
#include "command/ahead.h"

#include <utlist.h>

#define AHEAD_MAX 8

struct ahead *ahead_find(const struct allocation *allocation, uint64_t offset,
			 uint64_t length)
{
	struct ahead *ahead = allocation->ahead;

	if (!ahead || ahead->offset != offset || ahead->length < length ||
	    ahead->n_writes != allocation->n_writes)
		return NULL;
	return ahead;
}

struct ahead *ahead_free(struct broker *broker, struct ahead *ahead, struct op **ready)
{
	struct op *waiter = NULL;

	if (!ahead)
		return NULL;
	if (ahead->slot >= 0)
		waiter = worker_slot_put(&broker->mover, (unsigned int)ahead->slot);
	if (waiter)
		op_push_ready(ready, waiter);
	DL_DELETE(broker->aheads, ahead);
	broker->n_aheads--;
	ahead->allocation->ahead = NULL;
	free(ahead);
	return NULL;
}

/* Makes room: the oldest one that is there and that nobody came for. */
static bool ahead_make_room(struct broker *broker, struct op **ready)
{
	struct ahead *ahead;

	if (broker->n_aheads < AHEAD_MAX)
		return true;
	DL_FOREACH (broker->aheads, ahead) {
		if (!ahead->op) {
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
	if (!ahead_make_room(broker, ready))
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
	DL_APPEND(broker->aheads, ahead);
	broker->n_aheads++;
	allocation->ahead = ahead;
	return ahead;
}
