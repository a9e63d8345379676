/* SPDX-License-Identifier: MIT */
/*
 * An op: one work under way, from taking its place in the order to its answer.
 *
 * op_add() puts it into the order; when nothing is before it any more its class's run is
 * called, which asks a worker or does the work itself and ends in op_done(). Then its
 * finish answers whoever waits, what waited for this op is started, and the op is
 * freed. Who waits may go away before (op_take_wait, a command's interrupt): the op goes
 * on.
 *
 * An op that a dying worker had is asked again of the next one if it can be
 * (class->repeatable): all of its memory is durable, and doing it twice is as good as
 * once.
 */
#pragma once

#include "base/text.h"
#include "base/wait.h"
#include "channel/channel.h"
#include "op/deadline.h"
#include "process/broker.h"
#include "process/worker.h"

struct command;
struct deadline;
struct op;

struct kernel_class {
	/* "module/function" */
	const char *(*name)(const struct op *op);

	/* Whether its owner may still use that so. Under registry.lock. */
	bool (*may_use)(const struct op *op, const struct use *use);
};

/* What is under way in the broker. */
struct ops {
	struct deadline *deadlines; /* op/deadline.h; registry.lock */
	uint32_t launch_timeout_ms; /* where a launch names none; 0: none */
	uint32_t give_back_ms;	    /* for a worker to give up what is taken from it */
};

struct op_class {
	const char *what; /* "fill", for sentences */

	/* Nothing is before it: ask (op_ask) or do it, and end in op_done(). */
	void (*run)(struct op *op);

	/* What it is, for sentences; NULL: `what` and the allocations that it uses. */
	void (*describe)(const struct op *op, struct text *text);

	/* The worker did what op->ask says, which may be a part. Under registry.lock.
	 * May be NULL; else it is repeatable. */
	void (*note)(struct op *op);

	/* The worker answered well; NULL: op_done(op, 0). */
	void (*answered)(struct op *op, const struct wire_reply *reply);

	/* It answered badly; NULL: a sentence that fits them all. Ends in op_fail(). */
	void (*failed)(struct op *op, const struct wire_reply *reply);

	/* It ended before it answered, and the op is not repeated. Likewise. */
	void (*lost)(struct op *op, const char *reason);

	/* Appends the answer to its command: done, or under way from now on. */
	void (*answer)(struct op *op, struct text *answer, bool done);

	/* It is done and about to leave the order: the last time that its allocations are
	 * there for sure. Under registry.lock. May be NULL. */
	void (*settle)(struct op *op);

	/* It has left the order: give back what it held. No lock. May be NULL. */
	void (*leave)(struct op *op);

	bool repeatable; /* by another run of the worker, if no use lives in the first one
			  */
	bool remakable;	 /* by another run where the broker gave the first one up */
	/* It may be what loses the contexts, and others fall with them; NULL: no kernel.
	 */
	const struct kernel_class *kernel;
	bool on_lost; /* runs though what it uses is lost */
	bool quiet;   /* its failure is no failure of its stream */
};

struct op {
	struct work work;
	const struct op_class *class;
	struct broker *broker;
	struct owner *owner;
	struct owner *payer;   /* who asked for it, and whose share it takes */
	struct worker *worker; /* whom it is asked of; NULL: nobody */
	struct ask ask;
	uint32_t asked_epoch;
	unsigned int n_asked;
	bool asked_again; /* its worker ended: it is asked again when it is run */
	struct block *extra_block; /* of op_ask_with() */
	uint64_t rest; /* bytes behind those of the question, to be asked after it */
	struct image *image; /* its worker must have this module loaded; NULL: none */
	int only_use;	     /* of uses: what this worker may know of; -1: all of them */
	struct slot_waiter staged; /* its slot of worker->staging; -1: none */

	/* It has left the order: answers whoever waits; the op is freed after this. */
	void (*finish)(struct op *op);

	/* What came of it. error is 0 or a positive errno. */
	int error;
	char name[NAME_MAX_LENGTH + 1]; /* of what it used first, once it failed */
	struct cuda_failure failure;	/* the worker's call that failed */
	struct text sentence;

	/* Its worker is ended when it has not answered by then; registry.lock. */
	uint32_t limit_ms;	  /* from when it is sent (op_send); 0: none */
	struct deadline deadline; /* set when it has been sent */
	bool timed_out;
	int64_t overdue_ms; /* when its time was over while it was being sent; or 0 */

	uid_t uid; /* who asked for it, for the journal; where there is no command */
	pid_t pid;

	/* Who waits for it; each taken once, under registry.lock. */
	struct waiter waiter; /* of wait */
	struct wait *wait;
	struct command *command;
	bool settled; /* its answer is on its way: too late to go away */

	struct op *next_ready;
};

/* A zeroed op of size bytes (a struct that begins with struct op), charged to the owner
 * until op_charge(). NULL: no memory. */
struct op *op_new(size_t size, const struct op_class *class, struct broker *broker,
		  struct owner *owner);

/* Before op_add(): it takes the share of the caller, not of the op's owner. Under
 * registry.lock. */
void op_charge(struct op *op, const struct caller *caller);

/* Frees one that was never added. */
struct op *op_free(struct op *op);

/*
 * Puts it into the order, behind zeroing what it is the first to use. Under
 * registry.lock; then, without it, op_start().
 *
 * Returns: 0; -ENOMEM; -EBUSY when the payer has as many under way as one may; -ESTALE
 * when the broker is shutting down.
 */
int op_add(struct op *op, struct op **ret_ready);

/*
 * Whether it would wait now for more than what the mover does: for a kernel, another
 * worker, a reader's or writer's turn behind one of those. It has its uses, and no
 * stream. Under registry.lock, before op_add().
 */
bool op_would_wait(const struct op *op);

/* As op_add(), for what must go on during shutdown and beyond limits: the end of things.
 */
int op_add_unlimited(struct op *op, struct op **ret_ready);
void op_start(struct op *ready);
/* The same for works that were parked (rescue_park()). */
void op_resume(struct work *works);
/* Puts one more op on such a list. */
void op_push_ready(struct op **ready, struct op *op);

/*
 * Asks its worker op->ask.request, with what its uses and its stream need made known.
 * Returns: 0; WORKER_HELD; -ERESTART when what it uses has moved or is being made anew:
 * it is run again then; else negative where it could not be asked, and the op has failed.
 */
int op_ask(struct op *op);
/* The same with one more block made known (NULL: none), for an op of one use. */
int op_ask_with(struct op *op, struct block *block);

/*
 * The same for one of a chain, from its class's run: what follows it is sent behind it.
 */
void op_send(struct op *op);

/* Gives a slot back (-1: there is none) and runs the op that waited for it, if any. */
void op_slot_release(struct worker *worker, int slot);

/*
 * Takes one that has not begun out of the order; then, without the lock, op_left() with
 * what that makes ready. Under registry.lock. Returns: false where it has begun.
 */
bool op_leave(struct op *op, struct op **ret_ready);
void op_left(struct op *op, struct op *ready);

/* Ends it. error is positive; the sentence, if any, is in op->sentence already. */
void op_done(struct op *op, int error);

/* Fails it with a sentence and ends it. */
void op_fail(struct op *op, int error, const char *format, ...) _printf_(3, 4);

/* Has wait answered for by op, until somebody takes it. Under registry.lock. */
void op_set_wait(struct op *op, struct wait *wait);

/* Takes the wait, once; NULL when somebody did before. Takes registry.lock. */
struct wait *op_take_wait(struct op *op);

/* `fill of allocation x`, appended. Takes registry.lock. */
void op_describe(struct op *op, struct text *text);

/* Between op.c and op_ask.c: the answer to an op's question; the end of its time limit,
 * under registry.lock; the ops of works that are ready. */
void op_replied(struct ask *ask, const struct wire_reply *reply, bool lost);
void op_unlimit(struct op *op);
struct op *op_list(struct work *work);
