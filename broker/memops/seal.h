/* SPDX-License-Identifier: MIT */
/*
 * Sealing: an allocation that nobody writes any more, root neither.
 *
 * The flag counts from the moment it is set. Writes that have their place in the order of
 * uses by then are done, but for those of guests in their own workers (kernels, loads)
 * that have not begun: these are turned away. Later writes are refused where they would
 * be added. So whoever reads after the seal reads what stays.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct allocation;
struct broker;
struct caller;
struct op;
struct refusal;
struct token;

/*
 * A program of the user gets the file of the allocation's memory, to write. Under
 * registry.lock.
 */
void seal_note_lent(struct allocation *allocation, uid_t uid);

/*
 * Before seal_check(): asks the kernel, if need be, whether a program has the
 * allocation open for writing. The kernel takes 15 us, and much longer if users have put
 * many locks (fcntl(2)) on the file: where seal_question_lasts() the user's lane asks. No
 * lock held. Returns: false when the check would refuse.
 */
bool seal_ask(struct broker *broker, const struct caller *caller, const char *name);
void seal_ask_of(struct broker *broker, const struct caller *caller, struct token token);

/* Whether the kernel is to be asked, and may take long. Under registry.lock. */
bool seal_question_lasts(const struct caller *caller,
			 const struct allocation *allocation);

/*
 * Refuses, too, what was opened for writing since the question. Under registry.lock.
 * Returns: 0; -EPERM, -EBUSY, -ESTALE.
 */
int seal_check(const struct caller *caller, const struct allocation *allocation,
	       struct refusal *refusal);

/*
 * The last step before seal(): workers of guests with a mapping for writing lose the
 * memory. seal() must follow, since later reads wait. Under registry.lock; then call
 * op_start(). Returns: 0; -ENOMEM.
 */
int seal_prepare(struct broker *broker, struct allocation *allocation, struct op **ready,
		 struct refusal *refusal);

/*
 * Seals an allocation that is prepared; twice is once. Kernels and loads of guests that
 * wait to write the allocation are turned away. Under registry.lock; then call
 * op_start().
 */
void seal(struct broker *broker, struct allocation *allocation,
	  const struct caller *caller, struct op **ready);
