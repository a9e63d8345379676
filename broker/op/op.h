/* SPDX-License-Identifier: MIT */
/*
 * An op is one operation, from its place in the order until its answer, on one line:
 *
 *	op_add()	puts the op into the order
 *	op_begin()	when no predecessor is left: checks and writes the request
 *	op_submit()	sends the request to the worker
 *	op_complete()	takes the op out of the order, with its waiting caller
 *
 * op_begin() and op_complete() each take registry.lock once. Then finish() answers the
 * caller, successors are started, and the op is freed. An op without a request does its
 * work in run() of its class and ends in op_done(). The caller may stop waiting earlier
 * (broker_interrupt()): the op goes on.
 *
 * When a worker dies, its unanswered ops are sent to the next process if they are
 * repeatable (class->repeatable): all of their memory is durable, and running twice has
 * the same effect as once.
 */
#pragma once

#include "base/text.h"
#include "base/workqueue.h"
#include "channel/request.h"
#include "cuda/failure.h"
#include "model/meter.h"
#include "model/object.h"
#include "model/order.h"
#include "op/deadline.h"
#include "op/turn.h"
#include "process/staging_slot.h"
#include "process/worker.h"

struct caller;
struct deadline;
struct op;
struct refusal;
struct use;

struct kernel_class {
	/* "module/function" */
	const char *(*name)(const struct op *op);
};

/* State of all ops of a broker. */
struct ops {
	struct deadline *deadlines; /* the earliest; op/deadline.c; registry.lock */
	uint32_t launch_timeout_ms; /* default limit of a launch; 0: none */
	uint32_t give_back_ms;	    /* time for a worker to unmap memory taken from it */
};

/* The answer of op_begin(), and of begin() of a class. */
enum begun {
	OP_RUN,
	OP_PARKED, /* begins again later; perhaps already, in another thread */
	OP_OVER,   /* done: op->error and op->sentence are the result */
};

struct op_class {
	const char *what; /* "fill", for sentences */

	/*
	 * Called when no predecessor is left: checks, and writes op->request.record if
	 * there is one. Under registry.lock. May be NULL.
	 */
	enum begun (*begin)(struct op *op);

	/*
	 * Follows begin(): does work that needs no lock, and ends in op_submit() for the
	 * request of begin(), in op_request() for a request of its own, or in op_done().
	 * NULL: op_submit().
	 */
	void (*run)(struct op *op);

	/* Describes the op for sentences. NULL: `what` and the allocations used. */
	void (*describe)(const struct op *op, struct text *text);

	/*
	 * The worker has done the request in op->request, which may be a part of the op.
	 * Under registry.lock. May be NULL.
	 */
	void (*note)(struct op *op, const struct wire_reply *reply);

	/* Goes on after a successful reply. No lock. NULL: the op is done. */
	void (*answered)(struct op *op, const struct wire_reply *reply);

	/* Handles an error reply, and ends in op_fail(). NULL: a general sentence. */
	void (*failed)(struct op *op, const struct wire_reply *reply);

	/*
	 * The process ended before the reply and the op is not repeated. Ends in
	 * op_fail(). NULL: a general sentence.
	 */
	void (*lost)(struct op *op, const char *reason);

	/*
	 * A signal has ended the wait of the op's command. Under registry.lock. Returns:
	 * the answer, 0 or -EINTR. NULL: 0, and the op goes on.
	 */
	int (*interrupted)(struct op *op);

	/*
	 * For ops that may wait for memory, streams or files of other owners than the
	 * allocation's: whether the allocation may still be used in this way. An op that
	 * has not begun ends when it may not. Under registry.lock.
	 */
	bool (*may_use)(const struct op *op, const struct use *use);

	/* Appends the answer of the command: op done, or still queued or running. */
	void (*answer)(struct op *op, struct text *answer, bool done);

	/*
	 * Called before the op leaves the order, while its allocations still exist. Under
	 * registry.lock. op->completion tells whether the caller still waits.
	 * May be NULL.
	 */
	void (*settle)(struct op *op);

	/* Releases resources after the op has left the order. No lock. May be NULL. */
	void (*leave)(struct op *op);

	bool overwrites; /* writes all of the first use, or fails */
	bool repeatable; /* can run again in a new process, if all memory used is durable
			    or restored */
	bool remakable;	 /* can run again if the broker gave up the first process */
	/*
	 * Set for kernels, which can make the process lose its contexts and so fail other
	 * ops. NULL: not a kernel.
	 */
	const struct kernel_class *kernel;
	enum move_cause moves; /* the bytes of the first use count as moved so */
	bool held;	       /* ends when its payer wants */
	bool brief;  /* an owner's worker does it at once, unless kernels run there */
	bool pieces; /* asks for piece after piece, of several workers, without a place in
			a chain */
	bool on_lost; /* runs even if an allocation it uses is lost */
	bool quiet;   /* a failure does not mark the stream as failed */
};

/* Zeros that a failed op writes where it should have written; op/zero.h. */
struct instead {
	const struct op_class *class; /* the op's own; NULL: no zeros */
	struct text sentence;	      /* the failure of the op, with its errno: */
	int error;
	uint64_t offset, length;    /* in the first use's allocation */
	const struct worker *after; /* may write until its process has ended: */
	uint32_t after_epoch;	    /* this one, or an earlier one */
};

struct op {
	struct work work;
	const struct op_class *class;
	struct broker *broker;
	struct owner *owner;
	struct owner *payer;   /* the caller's owner, charged for the op */
	bool asked_for;	       /* charged as SHARE_OPERATIONS, else as SHARE_CHORES */
	unsigned int n_waits;  /* charged as SHARE_ORDER */
	struct worker *worker; /* gets the request; NULL: none */
	struct request request;
	struct worker_needs needs;		      /* of that request */
	struct needed_block room[WORK_USES_ROOM + 1]; /* needs.blocks, while few */
	uint32_t asked_epoch;
	unsigned int n_asked;
	bool asked_again; /* the process ended: run again by sending the same request */
	struct block *extra_block; /* needed beside those of the uses; NULL: none */
	uint64_t moved;		   /* bytes moved; 0: all of the first use */
	uint64_t rest;	     /* bytes left after the current request, sent afterwards */
	struct image *image; /* module the worker must have loaded; NULL: none */
	int only_use;	     /* index of the only use this worker may see; -1: all uses */
	struct slot_waiter staged; /* slot in worker->staging; -1: none */
	bool has_turn;		   /* at the mover. registry.lock, like the next: */
	bool has_room;		   /* in the broker's memory; op/turn.h */
	bool waits_for_room;
	struct op *prev_waiting, *next_waiting; /* for a turn or for room */

	/*
	 * Called after the op has left the order: answers the waiting caller. The op is
	 * freed afterwards.
	 */
	void (*finish)(struct op *op);

	/* The result. error is 0 or a positive errno. */
	int error;
	char *name;		     /* of the first allocation used; NULL: op_name() */
	struct cuda_failure failure; /* the driver call that failed in the worker */
	struct text sentence;

	/* The process is ended when no reply comes in time. Under registry.lock. */
	uint32_t limit_ms;	  /* counted from when it is sent; 0: no limit */
	struct deadline deadline; /* set when the op begins */
	bool timed_out;
	bool ran; /* has been past op_begin(). registry.lock */

	uid_t uid; /* caller, for the journal, when there is no command */
	pid_t pid;

	/*
	 * The waiting caller; NULL: none. Under registry.lock, until op_complete() lets
	 * no signal end the wait any more: then finish() answers.
	 */
	struct completion *completion;
	bool unawaited; /* its stream knows that nobody waits; registry.lock */
	bool left;	/* the order, before it began; registry.lock */
	bool shut_off;	/* ends before the next piece; registry.lock */
	bool refused;	/* does not begin: has its error already; registry.lock */

	bool takes_zeros;    /* zeroes, or writes over, the zeros that are owed */
	uint64_t takes_from; /* where these begin */
	struct instead instead;

	struct op *next_ready;
	struct task later; /* begins the op in the work queue */
};

/*
 * Allocates a zeroed op of size bytes (a struct that begins with struct op), charged to
 * the owner until op_charge(). NULL: no memory.
 */
struct op *op_new(size_t size, const struct op_class *class, struct broker *broker,
		  struct owner *owner);

/*
 * Charges the op to the caller instead of the op's owner, and notes in its uses whether
 * the caller is in the groups of the allocations. Call before op_add(). Under
 * registry.lock.
 */
void op_charge(struct op *op, const struct caller *caller);

/* The class of the op, also while the op writes zeros instead. */
static inline const struct op_class *op_class(const struct op *op)
{
	return op->instead.class ?: op->class;
}

/*
 * Nobody waits for the op, which is in the order: its stream tells of its failure. Under
 * registry.lock.
 */
void op_note_unawaited(struct op *op);

/* Marks the stream as failed if the op has, and no caller waits. Under registry.lock. */
void op_fail_stream(struct op *op);

/* Frees an op that was never added. */
struct op *op_free(struct op *op);

/*
 * Puts the op into the order, after zeroing of the allocations it is the first to use.
 * Under registry.lock; afterwards call op_start() without the lock.
 *
 * Returns: 0; -ENOMEM; -EBUSY, -EDQUOT when the payer has reached the bound or the limit
 * of ops, or the bound of their waits; -ESTALE when the broker is shutting down.
 */
int op_add(struct op *op, struct op **ret_ready);

/*
 * order_add(), with the payer charged for what the op waits for; an op that follows from
 * others is charged as one, too. Under registry.lock. Returns: 0; -ENOMEM; -EBUSY when an
 * op that was asked for would wait for too much.
 */
int op_add_to_order(struct op *op);

/*
 * Whether the op would have to wait for more than short work of the mover: for a kernel,
 * another worker, or ops queued behind those. The op has its uses and no stream. Under
 * registry.lock, before op_add().
 */
bool op_would_wait(const struct op *op);

/*
 * Makes an op that zeroes an allocation from that offset to its end, and op_zero_add()
 * adds the op as op_add() does. When the op fails, the zeros are owed: ops behind it fail
 * with its sentence, and later ops zero the memory again first. Under registry.lock.
 * Returns: NULL: no memory.
 */
struct op *op_zero_new(struct broker *broker, struct allocation *allocation,
		       uint64_t from);
int op_zero_add(struct op *zero, struct op **ret_ready);

/*
 * The op has failed, with error and op->sentence. Writes zeros into the range of its
 * first use's allocation, in the op's place in the order; then the op ends with its
 * error. When the zeros fail, the sentence says so. `after`: the process of that worker,
 * if it was given up, has to end first; NULL: none. With registry.lock held; releases the
 * lock.
 */
void op_zero_instead(struct op *op, uint64_t offset, uint64_t length,
		     struct worker *after, int error);

/* As op_add(), without limits and during shutdown: for cleanup. */
int op_add_unlimited(struct op *op, struct op **ret_ready);
/* Begins ready ops, and ends those that have left. No lock held. */
void op_start(struct op *ready);
/*
 * Between these calls, which nest, the ops that this thread starts are held back; then
 * they begin in their order. For a thread that first has to answer somebody: sending a
 * request takes longer than the answer, and wakes a worker that takes the processor.
 */
void op_starts_hold(void);
void op_starts_release(void);
/*
 * As op_start(), from the passed() of a deadline: begins them when the lock is free. On
 * any other thread they begin with its next op_start(), which has to follow.
 */
void op_start_later(struct op *ready);
/* As op_start(), for works parked by checkpoint_park(). */
void op_resume(struct work *works);
/* Adds an op, or all ops of a list, to a list of ready ops. */
void op_push_ready(struct op **ready, struct op *op);
void op_push_all(struct op **ready, struct op *list);

/* Adds one op to the ready ones and starts them. */
void op_start_again(struct op *op);

/*
 * Sends the request of begin() to the worker, after the blocks, stream and module the
 * worker needs; then the op's successors in its chain are sent. An op whose memory has
 * moved meanwhile is run again later; an op that can't be sent fails. Called by run() of
 * the class.
 */
void op_submit(struct op *op);

/* As op_submit(), for a request written by run(). Takes registry.lock. */
void op_request(struct op *op);

/*
 * Takes a slot of op->worker, unless the op has one. Returns: false: begins again, or
 * runs, with a slot. The caller must not touch the op any more (process/staging_slot.h).
 */
bool op_slot_get(struct op *op);
/* Releases a slot (-1: none) and runs the op waiting for a slot, if any. */
void op_slot_release(struct worker *worker, int slot);

/*
 * op_leave() from within a cancelled() or interrupted(): the ops that become ready are
 * started when the lock is free. Returns: false if the op has begun.
 */
bool op_leave_quietly(struct op *op);

/*
 * Removes an op that has not begun from the order. Under registry.lock; afterwards call
 * op_start() without the lock: this ends the op and starts those made ready. Returns:
 * false if the op has begun.
 */
bool op_leave(struct op *op, struct op **ready);

/* Pairs for order_detach(), under one hold of registry.lock. */
#define OP_PAIRS_MOST 1000000

/* What op_turn_away() itself takes, beside order_detach(). */
#define OP_PAIRS_EACH 200

/*
 * Fails an op that has not begun and waits for others: it leaves the order at once, and
 * ends when op_start() is called without the lock; an earlier error stays. Where that
 * takes more than all->pairs_left, as in order_detach(), the op ends when its turn comes.
 * Under registry.lock. Returns: 0; -ENOMEM, and nothing has happened.
 */
int op_turn_away(struct op *op, struct op **ready, const struct refusal *refusal,
		 struct detaching *all);

/*
 * Ends the op. error is 0 or a positive errno; op->sentence is set already, if there is a
 * sentence.
 */
void op_done(struct op *op, int error);

/* As op_done(), with registry.lock held; releases the lock. */
void op_complete(struct op *op, int error);

/* Ends the op with an error and a sentence. */
void op_fail(struct op *op, int error, const char *format, ...) _printf_(3, 4);

/* The same within begin(). Returns: OP_OVER. */
enum begun op_refuse(struct op *op, int error, const char *format, ...) _printf_(3, 4);

/* begin() of an op that only waits for its turn. Returns: OP_OVER. */
enum begun op_begin_nothing(struct op *op);

/*
 * Makes the op answer a request of the view: a signal ends the wait with -EINTR, and an
 * op that has not begun leaves the order. Under registry.lock.
 */
void op_hold(struct op *op, struct completion *completion);

/* Keeps the name of the first allocation used, for op_name(). Under registry.lock. */
void op_keep_name(struct op *op);
const char *op_name(const struct op *op); /* "?" where none was kept */

/* The name of the first allocation used. Takes registry.lock. */
struct full_name op_allocation_name(const struct op *op);

/* Appends a description such as `fill of allocation x`. Takes registry.lock. */
void op_describe(struct op *op, struct text *text);

/*
 * Shared by op.c, op_start.c and submit.c: finds the needs of a request, and starts and
 * clears the time limit, all under registry.lock; handles the reply; converts ready works
 * to a list of ops.
 */
int op_find_needs(struct op *op);
void op_limit(struct op *op);
void op_unlimit(struct op *op);
void op_replied(struct request *request, const struct wire_reply *reply, bool lost);
struct op *op_list(struct work *work);

/* The op is out of the order: answers, and starts the ops that waited for this op. */
void op_end(struct op *op, struct op *ready);

/* Whether the op of the work is at the mover already and waits for nothing else. */
bool op_is_soon_done(const struct work *work);
