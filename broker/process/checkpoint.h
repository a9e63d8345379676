/* SPDX-License-Identifier: MIT */
/*
 * Ends a worker process that can do no more work, and saves its managed memory.
 *
 * A kernel's fault destroys the contexts of its process for good; a kernel that never
 * ends blocks the process. The broker then ends the process, and the next request starts
 * another. The CPU can still read managed memory: the worker first writes it to a file of
 * the broker, within a time limit. The next process restores the memory from the file,
 * with its advice and attachment, at a new address. Ops that use the memory meanwhile are
 * parked. All else in the process is lost.
 */
#pragma once

#include <stdint.h>

#include "base/def.h"

struct allocation;
struct broker;
struct completion;
struct wire_reply;
struct work;
struct worker;

/*
 * Gives up the process with this epoch, if it is the current one. reason completes "the
 * worker REASON". error is the errno for kernels that were running. completion (NULL:
 * none) is answered when the process has ended and the saved memory is restored. With
 * registry.lock held.
 *
 * Returns: false when nothing was begun; completion is not answered then.
 */
bool checkpoint_begin(struct broker *broker, struct worker *worker, uint32_t epoch,
		      const char *reason, int error, struct completion *completion);

/*
 * As checkpoint_begin(), for a process that does not obey the broker, and tells its owner
 * in `errors`. The format completes "the worker of uid N ".
 */
void checkpoint_insist(struct broker *broker, struct worker *worker, uint32_t epoch,
		       const char *format, ...) _printf_(4, 5);

/* A reply to a request of the device shows that the process has lost its contexts. No
 * lock held. */
void checkpoint_note_fault(struct broker *broker, struct worker *worker, uint32_t epoch,
			   uint32_t device, const struct wire_reply *reply);

/* The new process has made its contexts, or there is no new process. No lock held. */
void checkpoint_run_ready(struct broker *broker, struct worker *worker);

/* The process has ended. No lock held. */
void checkpoint_run_ended(struct broker *broker, struct worker *worker, uint32_t epoch);

/*
 * Parks the work while a process of the worker lives that was given up and has this epoch
 * or an earlier one. Such a process keeps its mappings, and its kernels may run. Under
 * registry.lock. Returns: whether the work is parked.
 */
bool checkpoint_park_until_end(const struct worker *worker, uint32_t epoch,
			       struct work *work);

/* A wait for the ends of processes that were given up. */
struct until_end {
	void (*ended)(struct until_end *until); /* no lock held */
	bool waits;				/* registry.lock */
	uint32_t epoch;				/* of the last one possible; private */
	struct until_end *next;			/* private */
};

/*
 * As checkpoint_park_until_end(), for what is no work: ended() is called once these
 * processes have ended. Called again during the wait, with a later epoch, this makes the
 * wait longer. Returns: whether a wait begins.
 */
bool checkpoint_wait_until_end(const struct worker *worker, uint32_t epoch,
			       struct until_end *until);

/*
 * Kills processes of the worker with this epoch, or an earlier one, that were given up
 * and save nothing, or save slowly: the first milliseconds don't count. Returns: whether
 * another one goes on. Under registry.lock.
 */
bool checkpoint_hurry_stuck(const struct worker *worker, uint32_t epoch, unsigned int ms);

/* Whether a process of the worker that was given up still lives. Under registry.lock. */
bool checkpoint_lives(struct worker *worker);

/*
 * Whether a checkpoint of the process still notes what to save, and what is lost. Under
 * registry.lock.
 */
bool checkpoint_is_taking(const struct worker *worker, uint32_t epoch);

/*
 * Whether the allocation is being made again in another process. One that the checkpoint
 * has not come to is noted now. Under registry.lock.
 */
bool checkpoint_keeps(struct allocation *allocation);

/*
 * Kills processes whose saving takes too long. For the housekeeper. Returns: milliseconds
 * until the next check; -1: no check is needed.
 */
int64_t checkpoint_check_limits(struct broker *broker);

/*
 * Parks the work if an allocation it uses is being restored; the work is resumed
 * afterwards. Under registry.lock. Returns: whether the work is parked.
 */
bool checkpoint_park(struct work *work);
