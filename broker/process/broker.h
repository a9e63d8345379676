/* SPDX-License-Identifier: MIT */
/*
 * The broker as all folders from here on know it: what they share, and a part of each
 * folder that only its own header makes complete. api/broker.c puts the parts together.
 *
 * Locks, outermost first: a control's own; registry.lock; a worker's; a link's;
 * memory.lock; the journal's. No driver call and no callback is made under any of them,
 * and nobody waits under one: asking a worker only queues the question.
 */
#pragma once

#include "base/workqueue.h"
#include "memory/reclaim.h"
#include "memory/slab.h"
#include "model/journal.h"
#include "model/registry.h"

struct broker {
	struct registry registry;
	struct journal journal;
	struct memory memory;
	struct reclaim reclaim; /* registry.lock */
	struct crew crew;
	struct cuda_driver *driver;
	char *version;
	char *socket; /* where tickets are exchanged; NULL: nowhere */
	bool drained; /* by the thread that ends it, as is: */
	bool left;    /* processes that can't be ended */

	struct processes *processes; /* process/processes.h */
	struct ops *ops;	     /* op/op.h */
	struct ahead *aheads;	     /* memops/readahead.h: oldest first; registry.lock */
	struct leases *leases;	     /* memops/lease.h */
};
