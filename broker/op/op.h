/* SPDX-License-Identifier: MIT */
/*
 * An op is one operation, from its place in the order until its answer.
 *
 * op_add() puts an op into the order. When no predecessor is left, run() of its class is
 * called: run() sends a request to a worker or does the work itself, and ends in
 * op_done(). Then finish() answers the waiting caller, successors are started, and the op
 * is freed. The caller may stop waiting earlier (op_take_wait(), interrupt of a command):
 * the op goes on.
 *
 * When a worker dies, its unanswered ops are sent to the next process if they are
 * repeatable (class->repeatable): all of their memory is durable, and running twice has
 * the same effect as once.
 */
#pragma once

#include "base/text.h"
#include "base/wait.h"
#include "channel/channel.h"
#include "op/deadline.h"
#include "process/broker.h"
#include "process/staging_slot.h"
#include "process/worker.h"

struct command;
struct deadline;
struct op;

struct kernel_class {
	/* "module/function" */
	const char *(*name)(const struct op *op);

	/*
	 * Whether the owner may still use the allocation in this way. Under
	 * registry.lock.
	 */
	bool (*may_use)(const struct op *op, const struct use *use);
};

/* State of all ops of a broker. */
struct ops {
	struct deadline *deadlines; /* op/deadline.h; registry.lock */
	uint32_t launch_timeout_ms; /* default limit of a launch; 0: none */
	uint32_t give_back_ms;	    /* time for a worker to unmap memory taken from it */
};

struct op_class {
	const char *what; /* "fill", for sentences */

	/*
	 * Called when no predecessor is left: sends a request (op_ask()) or does the
	 * work, and ends in op_done().
	 */
	void (*run)(struct op *op);

	/* Describes the op for sentences. NULL: `what` and the allocations used. */
	void (*describe)(const struct op *op, struct text *text);

	/*
	 * The worker has done the request in op->ask, which may be a part of the op.
	 * Under registry.lock. A class with note() must be repeatable. May be NULL.
	 */
	void (*note)(struct op *op);

	/* Handles a successful reply. NULL: op_done(op, 0). */
	void (*answered)(struct op *op, const struct wire_reply *reply);

	/* Handles an error reply, and ends in op_fail(). NULL: a general sentence. */
	void (*failed)(struct op *op, const struct wire_reply *reply);

	/*
	 * The process ended before the reply and the op is not repeated. Ends in
	 * op_fail(). NULL: a general sentence.
	 */
	void (*lost)(struct op *op, const char *reason);

	/* Appends the answer of the command: op done, or still queued or running. */
	void (*answer)(struct op *op, struct text *answer, bool done);

	/*
	 * Called before the op leaves the order, while its allocations still exist. Under
	 * registry.lock. May be NULL.
	 */
	void (*settle)(struct op *op);

	/* Releases resources after the op has left the order. No lock. May be NULL. */
	void (*leave)(struct op *op);

	bool repeatable; /* can run again in a new process, if all memory used is durable
			    or restored */
	bool remakable;	 /* can run again if the broker gave up the first process */
	/*
	 * Set for kernels, which can make the process lose its contexts and so fail other
	 * ops. NULL: not a kernel.
	 */
	const struct kernel_class *kernel;
	bool on_lost; /* runs even if an allocation it uses is lost */
	bool quiet;   /* a failure does not mark the stream as failed */
};

struct op {
	struct work work;
	const struct op_class *class;
	struct broker *broker;
	struct owner *owner;
	struct owner *payer;   /* the caller's owner, charged for the op */
	struct worker *worker; /* gets the request; NULL: none */
	struct ask ask;
	uint32_t asked_epoch;
	unsigned int n_asked;
	bool asked_again; /* the process ended: run again by sending the same request */
	struct block *extra_block; /* from op_ask_with() */
	uint64_t rest;	     /* bytes left after the current request, sent afterwards */
	struct image *image; /* module the worker must have loaded; NULL: none */
	int only_use;	     /* index of the only use this worker may see; -1: all uses */
	struct slot_waiter staged; /* slot in worker->staging; -1: none */

	/*
	 * Called after the op has left the order: answers the waiting caller. The op is
	 * freed afterwards.
	 */
	void (*finish)(struct op *op);

	/* The result. error is 0 or a positive errno. */
	int error;
	char name[OBJECT_NAME_MAX + 1]; /* of the first allocation used, set on failure */
	struct cuda_failure failure;	/* the driver call that failed in the worker */
	struct text sentence;

	/* The process is ended when no reply comes in time. Under registry.lock. */
	uint32_t limit_ms;	  /* counted from op_send(); 0: no limit */
	struct deadline deadline; /* set by op_send() */
	bool timed_out;
	int64_t overdue_ms; /* when the time ran out during sending; 0: not */

	uid_t uid; /* caller, for the journal, when there is no command */
	pid_t pid;

	/* The waiting caller; each pointer is taken once, under registry.lock. */
	struct waiter waiter; /* of wait */
	struct wait *wait;
	struct command *command;
	bool settled; /* the answer is being sent: too late to interrupt */

	struct op *next_ready;
};

/*
 * Allocates a zeroed op of size bytes (a struct that begins with struct op), charged to
 * the owner until op_charge(). NULL: no memory.
 */
struct op *op_new(size_t size, const struct op_class *class, struct broker *broker,
		  struct owner *owner);

/*
 * Charges the op to the caller instead of the op's owner. Call before op_add(). Under
 * registry.lock.
 */
void op_charge(struct op *op, const struct caller *caller);

/* Frees an op that was never added. */
struct op *op_free(struct op *op);

/*
 * Puts the op into the order, after zeroing of the allocations it is the first to use.
 * Under registry.lock; afterwards call op_start() without the lock.
 *
 * Returns: 0; -ENOMEM; -EBUSY when the payer has reached the limit of ops; -ESTALE when
 * the broker is shutting down.
 */
int op_add(struct op *op, struct op **ret_ready);

/*
 * Whether the op would have to wait for more than short work of the mover: for a kernel,
 * another worker, or ops queued behind those. The op has its uses and no stream. Under
 * registry.lock, before op_add().
 */
bool op_would_wait(const struct op *op);

/* As op_add(), without limits and during shutdown: for cleanup. */
int op_add_unlimited(struct op *op, struct op **ret_ready);
void op_start(struct op *ready);
/* As op_start(), for works parked by rescue_park(). */
void op_resume(struct work *works);
/* Adds an op to a list of ready ops. */
void op_push_ready(struct op **ready, struct op *op);

/*
 * Sends op->ask.request to the worker, after the blocks, stream and module the worker
 * needs.
 *
 * Returns: 0; WORKER_HELD; -ERESTART when an allocation has moved or is being restored:
 * the op is run again later; another negative errno: not sent, and the op has failed.
 */
int op_ask(struct op *op);
/* As op_ask(), with an additional block (NULL: none). For an op with one use. */
int op_ask_with(struct op *op, struct block *block);

/*
 * As op_ask(), for an op in a chain: its successors are sent right after it. Called by
 * the class's run().
 */
void op_send(struct op *op);

/* Releases a slot (-1: none) and runs the op waiting for a slot, if any. */
void op_slot_release(struct worker *worker, int slot);

/*
 * Removes an op that has not begun from the order. Under registry.lock; afterwards call
 * op_left() without the lock, with the ops made ready. Returns: false if the op has
 * begun.
 */
bool op_leave(struct op *op, struct op **ret_ready);
void op_left(struct op *op, struct op *ready);

/*
 * Ends the op. error is 0 or a positive errno; op->sentence is set already, if there is a
 * sentence.
 */
void op_done(struct op *op, int error);

/* Ends the op with an error and a sentence. */
void op_fail(struct op *op, int error, const char *format, ...) _printf_(3, 4);

/* Makes the op answer wait, until the wait is taken. Under registry.lock. */
void op_set_wait(struct op *op, struct wait *wait);

/* Takes the wait. NULL when already taken. Takes registry.lock. */
struct wait *op_take_wait(struct op *op);

/* Appends a description such as `fill of allocation x`. Takes registry.lock. */
void op_describe(struct op *op, struct text *text);

/*
 * Shared by op.c and submit.c: handles the reply; clears the time limit, under
 * registry.lock; converts ready works to a list of ops.
 */
void op_replied(struct ask *ask, const struct wire_reply *reply, bool lost);
void op_unlimit(struct op *op);
struct op *op_list(struct work *work);
