/* SPDX-License-Identifier: MIT */
/*
 * A worker as the broker keeps it: the mover, or an owner's. The struct stays while
 * processes come and go; each run of the process has an epoch, and what a block or a
 * stream knows of the worker (mapped, made) counts only for the epoch it was noted in. So
 * nothing has to be undone when a process ends: the next one is told again what it needs.
 *
 * Starting is lazy: whoever has a question for a worker that does not run starts it.
 */
#pragma once

#include <pthread.h>

#include "channel/channel.h"
#include "channel/staging.h"

struct allocation;
struct block;
struct broker;
struct image;
struct owner;
struct run;
struct stream;
struct text;

struct worker {
	struct broker *broker;
	struct owner *owner; /* NULL: the mover */
	pthread_mutex_t lock;
	struct link *link;     /* NULL: does not run */
	struct run *run;       /* that link's */
	struct run *runs;      /* all whose process is not known to be gone */
	uint32_t epoch;	       /* of the run, counted from 1; 0 before the first */
	int64_t last_asked_ms; /* CLOCK_MONOTONIC */
	bool closed;	       /* is not started any more */
	struct staging staging;
	struct slot_waiter
		*slot_waiters;	 /* works that wait for a slot, first come first served */
	unsigned int n_lent;	 /* slots that are out as request buffers */
	unsigned int n_aheads;	 /* pieces read ahead, or on their way; registry.lock */
	char end_reason[128];	 /* of the last run that ended unasked */
	int end_error;		 /* what that is for a kernel that it had; 0: EIO */
	uint32_t end_epoch;	 /* of that run */
	uint32_t given_up_epoch; /* the last run that worker_abandon() ended */
	uint32_t wanted;   /* devices whose contexts are to be made at once, a bit each;
			      registry.lock, as is: */
	uint32_t used;	   /* devices that were ever used when a run was given up */
	uint32_t n_resets; /* asked for by his owner or root; registry.lock */
	unsigned int n_barren; /* runs that died one after the other, with no work done */
};

/* Returns: 0; -ENOMEM, -EMFILE. Starts nothing. */
int worker_init(struct worker *worker, struct broker *broker, struct owner *owner,
		unsigned int n_slots);
void worker_deinit(struct worker *worker);

/* The owner's worker, made when it is first needed. NULL: no memory. */
struct worker *worker_of(struct broker *broker, struct owner *owner);

/* What lived in a run of a worker is gone, and why, as in "the worker WHY"; it stays in
 * the tree until it is freed. Under registry.lock. */
void worker_lose_allocation(struct broker *broker, struct allocation *allocation,
			    const char *why);

/* The worker that reaches an allocation: the mover, or its owner's. NULL: no memory. */
struct worker *allocation_worker(struct broker *broker,
				 const struct allocation *allocation);

/* Who waits for a slot of the staging area. */
struct slot_waiter {
	int slot; /* -1: none yet */
	struct slot_waiter *prev, *next;
};

struct needed_block {
	struct block *block;
	bool guest;    /* another owner's */
	bool writable; /* and he may write it; else it is mapped read-only */
};

/* What a worker must have before it can do what it is asked. */
struct worker_needs {
	struct needed_block *blocks;
	unsigned int n_blocks;
	struct stream *stream; /* NULL: none */
	struct image *image;   /* a module's; NULL: none */
	uint32_t epoch; /* not 0: only this run will do, it holds what is asked about */

	/* The request has been sent, or refused before: then its id is 0. Called only
	 * where worker_ask() returned WORKER_HELD, no lock held. NULL: nobody wants to
	 * know. */
	void (*sent)(struct ask *ask);
};

#define WORKER_HELD 1

/*
 * Starts the worker if it does not run, tells it what it does not know yet, asks. Where
 * the worker can't map or make something that is needed, the request is answered with
 * that failure and never sent.
 *
 * Returns: 0; WORKER_HELD where the request is sent as soon as the worker has answered
 * what it was told; -ESTALE when the run it needs is over; -ENOMEM, -EMFILE, -EAGAIN when
 * it could not be started or asked: then done is not called. *ret_epoch: whom it was
 * asked.
 */
int worker_ask(struct worker *worker, const struct worker_needs *needs, struct ask *ask,
	       uint32_t *ret_epoch);

/*
 * Asks it to unmap a block that it may have mapped, as its owner's or as a guest.
 * Returns: false when it has not, and done is not called. *ret_epoch: the run asked.
 */
bool worker_unmap(struct worker *worker, struct block *block, bool guest, struct ask *ask,
		  uint32_t *ret_epoch);

/*
 * An owner's worker that dies again and again, and has never done anything, is not
 * started any more (-EHOSTDOWN) until it is forgiven, as any answer of it does.
 */
bool worker_has_failed(struct worker *worker);
void worker_forgive(struct worker *worker);

/* Whether this run of it still goes on. */
bool worker_runs(struct worker *worker, uint32_t epoch);

/* Its process, 0 when there is none. */
pid_t worker_pid(struct worker *worker);

/* Appends the processes of it that are still there, separated by commas. */
void worker_tell_left(struct worker *worker, struct text *text);

/* Why the last run ended, and what error that is for a kernel that it had. */
void worker_end_reason(struct worker *worker, char *ret_reason, size_t size);
int worker_end_error(struct worker *worker, uint32_t epoch);

/* Whether the broker ended that run, the last it so ended, and no defect of its own did.
 */
bool worker_gave_up(struct worker *worker, uint32_t epoch);

/*
 * Takes this run off the worker: the next question starts another. reason as in "the
 * worker REASON", error what that is for a kernel that it had. For rescue.c, which ends
 * it; with registry.lock held the link stays.
 *
 * Returns: its link; NULL when the worker has no such run any more.
 */
struct link *worker_abandon(struct worker *worker, uint32_t epoch, const char *reason,
			    int error);

/*
 * Has the worker started again at once, in place of the run of that epoch, with a context
 * on each device that it had a stream on: the housekeeper does it, and rescue_run_ready()
 * is told. Under registry.lock.
 *
 * Returns: whether there are any.
 */
bool worker_want(struct worker *worker, uint32_t epoch);
/* Starts it with contexts on those devices, a bit each. */
void worker_wake(struct worker *worker, uint32_t devices);

/* The run that goes on, 0 where there is none. */
uint32_t worker_epoch(struct worker *worker);

/* Ends it if it has had nothing to do for that long. The caller knows that it holds
 * nothing. */
void worker_end_idle(struct worker *worker, int64_t idle_s);

/* Asks it to end for good; kills it after seconds. The housekeeper frees the link. */
void worker_close(struct worker *worker, unsigned int seconds);

/* Frees a run that has ended. Returns: the next one. */
struct run *run_free(struct run *run);

/*
 * Takes a slot of its staging area for waiter->slot.
 *
 * Returns: true; false when there is none: op waits for one, and may be running again
 * with it by now in another thread, so the caller must not touch it any more.
 */
bool worker_slot_get(struct worker *worker, struct slot_waiter *waiter);
/* Takes one only where one is free. waiter->slot: -1 where none is. */
bool worker_slot_try(struct worker *worker, struct slot_waiter *waiter);
/* Gives a slot back. Returns: a work that waited and has it now (waiter->slot), or NULL.
 */
struct slot_waiter *worker_slot_put(struct worker *worker, unsigned int slot);

/* Has a stream destroyed in the run that was told of it, if that still goes on. */
void worker_drop_stream(struct worker *worker, const struct stream *stream);

/* Ends a run that broke the rules: reason says what it did, with "the worker" before it.
 */
void worker_condemn(struct worker *worker, uint32_t epoch, const char *reason);

/* Has an image unloaded from the run that was told of it, if that still goes on. */
void worker_drop_image(struct worker *worker, const struct image *image);
