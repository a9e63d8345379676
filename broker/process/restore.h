/* SPDX-License-Identifier: MIT */
/*
 * Managed memory made anew in the next run of its owner's worker, from a file that holds
 * its bytes, with its attachment, advice and last prefetch, at a new address. One
 * allocation after the other; what can't be made is lost. For rescue.c.
 */
#pragma once

#include "channel/channel.h"
#include "process/broker.h"

/* One allocation, while it has no address. */
struct saved {
	struct allocation *allocation; /* stays while it is `restoring` */
	uint64_t address;	       /* in the run that ends */
	uint64_t offset;	       /* in the file */
	bool good;
};

/* How one is made anew. The last two are asked for range by range, as often as needed. */
enum stage {
	STAGE_NEXT, /* it has not begun */
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
	const char *reason;		       /* why the run before it ended */
	void (*done)(struct restore *restore); /* no lock held */

	int fd; /* what is kept, one after the other */
	unsigned int n_saved;
	struct saved *saved;

	/* Private: the one at `at`. */
	unsigned int at;
	struct ask ask;
	enum stage stage;
	uint32_t new_epoch;
	uint64_t new_address;
	unsigned int n_tries, n_runs;
	unsigned int range, step; /* of its advice */
	char why_not[128];	  /* what went wrong last, as in "and it WHY_NOT" */
};

/* Makes all that is saved and good anew, loses what is not, and calls done. */
void restore_begin(struct restore *restore);
