/* SPDX-License-Identifier: MIT */
/*
 * Reading ahead: while a reader takes one piece of `data`, the next one is on its way
 * into a slot. All under registry.lock.
 *
 * What was read ahead is good only as long as nothing has been queued to write the
 * allocation since (allocation->n_writes) and the allocation is not lost; it is one piece
 * for each allocation, and a few for each worker, so that readers who stop midway leave
 * the slots to others.
 */
#pragma once

#include "op/op.h"

struct ahead {
	struct allocation *allocation;
	uint64_t offset, length;
	uint64_t n_writes;
	struct op *op; /* on its way; NULL: it is there */
	int slot;      /* of the worker's staging area, once it is there */
	struct worker *worker;
	struct ahead *prev, *next; /* broker->aheads, oldest first */
};

/* Reads shorter than this are not worth it. */
#define AHEAD_MIN (128u << 10)

/*
 * Notes that op, not added yet, reads [offset, offset + length) ahead. What was read
 * ahead before is dropped. Returns: NULL when there are too many on their way, or no
 * memory.
 */
struct ahead *ahead_new(struct broker *broker, struct allocation *allocation,
			uint64_t offset, uint64_t length, struct op *op,
			struct op **ready);

/* Forgets it. A slot that somebody waits for goes to him, who is put on *ready. */
struct ahead *ahead_free(struct broker *broker, struct ahead *ahead, struct op **ready);

/* What was or is being read ahead for this read; NULL: nothing that is good. */
struct ahead *ahead_find(const struct allocation *allocation, uint64_t offset,
			 uint64_t length);
