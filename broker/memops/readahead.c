/* SPDX-License-Identifier: MIT */
#include "memops/readahead.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/def.h"
#include "model/allocation.h"
#include "op/op.h"
#include "process/broker.h"
#include "process/staging_slot.h"
#include "process/worker.h"

/* The limit of pieces for a worker, by the number of its slots. */
static unsigned int readahead_most(const struct worker *worker)
{
	return MAX(worker->staging.n_slots / 6, 2u);
}

struct readahead *readahead_find(const struct allocation *allocation, uint64_t offset,
				 uint64_t length)
{
	struct readahead *readahead = allocation->rare->readahead;

	if (!readahead || readahead->offset != offset || readahead->length < length ||
	    readahead->n_writes != allocation->n_writes ||
	    allocation->state != ALLOCATION_LIVE)
		return NULL;
	return readahead;
}

struct readahead *readahead_free(struct broker *broker, struct readahead *readahead,
				 struct op **ready)
{
	struct slot_waiter *waiter = NULL;

	if (!readahead)
		return NULL;
	if (readahead->slot >= 0)
		waiter = staging_slot_put(readahead->worker,
					  (unsigned int)readahead->slot);
	if (waiter)
		op_push_ready(ready, container_of(waiter, struct op, staged));
	DL_DELETE(broker->readaheads, readahead);
	readahead->worker->n_readaheads--;
	readahead->allocation->rare->readahead = NULL;
	free(readahead);
	return NULL;
}

/* Makes room: drops the oldest complete piece without a reader. */
static bool readahead_make_room(struct broker *broker, const struct worker *worker,
				struct op **ready)
{
	struct readahead *readahead;

	if (worker->n_readaheads < readahead_most(worker))
		return true;
	DL_FOREACH (broker->readaheads, readahead) {
		if (readahead->worker == worker && !readahead->op) {
			readahead_free(broker, readahead, ready);
			return true;
		}
	}
	return false;
}

struct readahead *readahead_new(struct broker *broker, struct allocation *allocation,
				uint64_t offset, uint64_t length, struct op *op,
				struct op **ready)
{
	struct readahead *readahead;

	if (allocation_make_rare(allocation) < 0)
		return NULL;
	readahead_free(broker, allocation->rare->readahead, ready);
	if (!readahead_make_room(broker, op->worker, ready))
		return NULL;
	readahead = calloc(1, sizeof(*readahead));
	if (!readahead)
		return NULL;
	readahead->allocation = allocation;
	readahead->offset = offset;
	readahead->length = length;
	readahead->n_writes = allocation->n_writes;
	readahead->op = op;
	readahead->slot = -1;
	readahead->worker = op->worker;
	DL_APPEND(broker->readaheads, readahead);
	readahead->worker->n_readaheads++;
	allocation->rare->readahead = readahead;
	return readahead;
}
