/* SPDX-License-Identifier: MIT */
/* An allocation on its way from its name to its memory. */
#pragma once

#include "base/completion.h"
#include "base/workqueue.h"
#include "channel/channel.h"
#include "op/deadline.h"
#include "process/broker.h"

struct making {
	struct task task;
	struct ask ask; /* for what is free, when there is too little */
	struct broker *broker;
	struct allocation *allocation;
	struct completion *completion; /* NULL: it went away. registry.lock */
	void (*made)(struct completion *completion, struct token token); /* well done */
	struct deadline deadline; /* while it is parked */
	int64_t wait_until_ms;	  /* CLOCK_MONOTONIC; 0: it has never been parked */
	bool waited;		  /* in vain */
	unsigned int n_missed;	  /* runs of the worker that made it and ended */
	uint64_t n_arrived;	  /* reclaimed on the device when it was last tried */
	struct reclaim_waiter waiter;
	struct cuda_failure failure;
};

/*
 * Has its memory made, by kind; it owns itself from here on. In the end its allocation is
 * published or gone, and its completion has its answer. No lock held.
 */
void making_start(struct making *making);
