/* SPDX-License-Identifier: MIT */
/*
 * The broker as seen by this folder and all folders above it: the parts it is made of.
 * Each part belongs to the folder whose header completes its type. api/broker.c puts the
 * parts together.
 *
 * Lock order, outermost first: an open control file's lock; registry.lock; a worker's; a
 * channel's; memory.lock; the journal's. No driver call and no callback is made under any
 * of these locks, and no thread waits under one: sending a request to a worker only
 * queues the request.
 */
#pragma once

#include <stdbool.h>

struct broker {
	/* Set at the start, and valid until the end. */
	struct registry *registry;     /* model/registry.h */
	struct journal *journal;       /* model/journal.h */
	struct memory *memory;	       /* memory/block.h */
	struct reclaim *reclaim;       /* memory/reclaim.h; registry.lock */
	struct workqueue *workqueue;   /* base/workqueue.h */
	struct workqueue *user_lanes;  /* process/user_lanes.h */
	struct processes *processes;   /* process/processes.h */
	struct ops *ops;	       /* op/op.h */
	struct leases *leases;	       /* memops/lease.h */
	struct line_times *line_times; /* api/line_times.h */
	struct text_maker *text_maker; /* api/text_maker.h */
	struct questions *questions;   /* api/memory_used.h; registry.lock */
	struct lifetimes *lifetimes;   /* memops/lifetime.h */
	struct limits_file
		*limits_file; /* api/limits_file.h; NULL: limits are not kept */
	struct cuda_driver *driver;
	char *version;
	char *socket; /* socket where tickets are exchanged; NULL: none */

	struct readahead
		*readaheads; /* memops/readahead.h: oldest first; registry.lock */
	bool drained;	     /* set by the thread that shuts down, like the next: */
	bool left;	     /* some processes could not be ended */
	bool left_files;     /* the same of processes of files */
};
