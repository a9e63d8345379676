/* SPDX-License-Identifier: MIT */
/*
 * Shared by all requests for `data`: finding the allocation, refusals, answers. A failure
 * is a line in the caller's `errors`.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "model/object.h"
#include "model/shares.h"

struct allocation;
struct broker;
struct caller;
struct completion;
struct op;
struct writer;

/* Maps an error to those allowed by the interface. */
int data_errno(int error);

void data_fail(struct broker *broker, uid_t uid, pid_t pid, const char *name, int error,
	       const char *sentence);

void data_answer(struct completion *wait, int error, size_t length);

/* Notes and charges the caller. Under registry.lock. */
void data_charge(struct op *op, const struct caller *caller);

/*
 * Finds an allocation and takes registry.lock. NULL: freed; the lock is not held and wait
 * is answered.
 */
struct allocation *data_find(struct broker *broker, struct token token,
			     const struct caller *caller, struct completion *wait);

/* The same for a request that writes: refused when the allocation is sealed. */
struct allocation *data_find_to_write(struct broker *broker, struct token token,
				      const struct caller *caller,
				      struct completion *wait);

/* Answers a request past the end. Releases the lock. */
void data_no_space(struct broker *broker, const struct allocation *allocation,
		   const struct caller *caller, uint64_t offset, uint64_t length,
		   struct completion *wait);

/* Notes a work of the writer. Returns: its number. Under registry.lock. */
uint64_t writer_queues(struct writer *writer);

/* Answers for lack of memory. Releases the lock. */
void data_no_memory(struct broker *broker, struct completion *wait);

/* Notes the reason of a refusal, and the name of the allocation. Under registry.lock. */
void data_note_refused(struct op *op, int error);

/* Frees an op that was not added, and answers. No lock held. */
void data_drop_op(struct op *op, struct completion *wait);
