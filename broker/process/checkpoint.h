/* SPDX-License-Identifier: MIT */
/*
 * The end of a run that nothing more comes of, and what is kept of it.
 *
 * A kernel's fault ends the contexts of its process for good; one that never ends takes
 * the process with it. The process is ended then, and the next question starts another.
 * Managed memory can still be read by the CPU: so the worker first writes it to a file
 * of the broker's, within a bounded time, and the next run makes it anew from there, with
 * its advice and attachment, at a new address. Whatever uses it meanwhile waits. What
 * else lived in the process is lost.
 */
#pragma once

#include "process/broker.h"

struct completion;
struct wire_reply;

/*
 * Gives a run up, which is that of the worker now or nothing is done; reason as in "the
 * worker REASON", error what that is for a kernel that it had. completion (NULL: none) is
 * answered when the run has ended and what could be kept is there again. With
 * registry.lock held.
 *
 * Returns: whether it did; else completion is not answered.
 */
bool rescue_begin(struct broker *broker, struct worker *worker, uint32_t epoch,
		  const char *reason, int error, struct completion *completion);

/*
 * The same for a run that does not do what the broker asks of it, and its owner is told
 * in `errors`. The words that follow go behind "the worker of uid N ".
 */
void rescue_insist(struct broker *broker, struct worker *worker, uint32_t epoch,
		   const char *format, ...) _printf_(4, 5);

/* An answer shows that its run has lost its contexts. No lock held. */
void rescue_note_fault(struct broker *broker, struct worker *worker, uint32_t epoch,
		       const struct wire_reply *reply);

/* Has nobody answer it any more. With registry.lock held. */
void rescue_forget(struct broker *broker, const struct completion *completion);

/* The contexts of the run that goes on are there, or there is none. No lock held. */
void rescue_run_ready(struct broker *broker, struct worker *worker);

/* The process of a run has ended. No lock held. */
void rescue_run_ended(struct broker *broker, struct worker *worker, uint32_t epoch);

/*
 * Ends what takes too long. For the housekeeper.
 * Returns: milliseconds until the next time, -1 where there is nothing to look at.
 */
int64_t rescue_check_limits(struct broker *broker);

/*
 * Whether something that the work uses is being made anew: then it is parked, and
 * started again when that is done. No lock held.
 */
bool rescue_park(struct broker *broker, struct work *work);
