/* SPDX-License-Identifier: MIT */
/*
 * Restores managed memory in the next process of its owner's worker, from a file with the
 * bytes, at a new address, with attachment, advice and last prefetch. Allocations are
 * restored in turn. An allocation that can't be restored is lost. For checkpoint.c.
 */
#pragma once

#include "channel/channel.h"
#include "channel/request.h"
#include "process/broker.h"

/* A saved allocation, which has no address until restored. */
struct saved {
	struct allocation *allocation; /* exists as long as `restoring` is set */
	uint64_t address;	       /* in the process that ends */
	uint64_t offset;	       /* in the file */
	bool good;
};

/* Stages of restoring an allocation. The last two stages are repeated for each range. */
enum stage {
	STAGE_NEXT, /* not begun */
	STAGE_ALLOC,
	STAGE_FILL,
	STAGE_ATTACH,
	STAGE_ADVISE,
	STAGE_DONE,
	STAGE_LOST,
};

struct restore {
	struct broker *broker;
	struct worker *worker;
	const char *reason;		       /* why the previous process ended */
	void (*done)(struct restore *restore); /* no lock held */

	int fd; /* the saved bytes of all allocations */
	unsigned int n_saved;
	struct saved *saved;

	/* Private: state of the allocation at index `at`. */
	unsigned int at;
	struct request request;
	enum stage stage;
	uint32_t new_epoch;
	uint64_t new_address;
	unsigned int n_tries, n_runs;
	unsigned int range, step; /* position in the advice */
	char why_not[128];	  /* last failure, as in "and it WHY_NOT" */
};

/* Restores all allocations that were saved well, loses the others, and calls done(). */
void restore_begin(struct restore *restore);
