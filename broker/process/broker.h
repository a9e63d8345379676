/* SPDX-License-Identifier: MIT */
/*
 * The broker as seen by this folder and all folders above it: shared members, and one
 * member for each folder, completed only by that folder's header. api/broker.c puts the
 * members together.
 *
 * Lock order, outermost first: an open control file's lock; registry.lock; a worker's; a
 * link's; memory.lock; the journal's. No driver call and no callback is made under any of
 * these locks, and no thread waits under one: sending a request to a worker only queues
 * the request.
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
	char *socket; /* socket where tickets are exchanged; NULL: none */
	bool drained; /* set by the thread that shuts down, like the next: */
	bool left;    /* some processes could not be ended */

	struct processes *processes; /* process/processes.h */
	struct ops *ops;	     /* op/op.h */
	struct ahead *aheads;	     /* memops/readahead.h: oldest first; registry.lock */
	struct leases *leases;	     /* memops/lease.h */
};
