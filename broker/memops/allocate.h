/* SPDX-License-Identifier: MIT */
/* The request to make an allocation, from its name to its memory. */
#pragma once

#include "base/completion.h"
#include "base/workqueue.h"
#include "channel/channel.h"
#include "channel/request.h"
#include "cuda/failure.h"
#include "memory/block.h"
#include "memory/reclaim.h"
#include "model/allocation.h"
#include "op/deadline.h"
#include "process/broker.h"

struct token;

struct alloc_request {
	struct task task;
	struct request request; /* asks for the free memory when there is too little */
	struct broker *broker;
	struct allocation *allocation;
	pid_t pid;		       /* of who asked */
	struct completion *completion; /* NULL: interrupted. registry.lock */
	void (*made)(struct completion *completion, struct token token); /* on success */
	struct deadline deadline; /* while parked */
	int64_t wait_until_ms;	  /* CLOCK_MONOTONIC; 0: never parked */
	bool waited;		  /* parked in vain */
	unsigned int n_missed;	  /* worker processes that ended just after making it */
	uint64_t n_arrived; /* count of reclaimed memory on the device at the last try */
	uint64_t n_own_arrived; /* the same of the owner */
	uint64_t charged;	/* bytes charged for a block that is not made yet */
	bool needs_slab;	/* the owner's slabs have no cell: that block is a slab */
	bool beyond;		/* waits for room below the owner's limit */
	struct reclaim_waiter waiter;
	struct queue_place place; /* of those who gave `wait=` */
	bool patient;		  /* `wait=` was given */
	uint32_t patience_ms;	  /* its value */
	int64_t patient_until_ms; /* CLOCK_MONOTONIC; 0: has not waited yet */
	bool pays_wait;		  /* the owner is charged for the wait */
	struct cuda_failure failure;
};

/*
 * Whether an allocation of this kind, size, mode and guard shares a block with others of
 * its owner. Other device and host memory has a separate block, and so takes a
 * descriptor.
 */
bool allocation_is_cell(enum allocation_kind kind, uint64_t size, uint16_t mode,
			enum guard guard);

/* Where the memory of such an allocation is made (memory/block.h). */
uint32_t allocation_place(const struct allocation *allocation);

/* The name, which a rename of a folder may change. Takes registry.lock. */
struct full_name alloc_request_name(const struct alloc_request *alloc);

/* From now on a signal ends the wait of the command. Under registry.lock. */
void alloc_request_waits(struct alloc_request *alloc);

/* Runs a step in the work queue, because the step may take long. Under registry.lock. */
void alloc_request_run(struct alloc_request *alloc, void (*run)(struct task *task));

/* Frees the request and its name, without an answer. Under registry.lock. */
void alloc_request_drop(struct alloc_request *alloc);

/* The same, after an answer with the error. No lock held. */
void alloc_request_failed(struct alloc_request *alloc, int error, const char *sentence);
void alloc_request_failed_share(struct alloc_request *alloc, int error, const char *why);
void alloc_request_failed_call(struct alloc_request *alloc, int error);

/*
 * Makes the memory, by kind. Takes ownership of alloc. In the end the allocation is
 * published or freed, and the completion is answered. No lock held.
 */
void alloc_request_start(struct alloc_request *alloc);
