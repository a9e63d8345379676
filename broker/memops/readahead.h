/* SPDX-License-Identifier: MIT */
/*
 * Readahead: while a reader takes one piece of `data`, the next piece is read into a
 * slot. All under registry.lock.
 *
 * A piece is valid until a write to the allocation is queued (allocation->n_writes) or
 * the allocation is lost. Each allocation has one piece, and each worker a few, so that
 * readers who stop midway do not use up the slots.
 */
#pragma once

#include <stdint.h>

struct broker;

struct readahead {
	struct allocation *allocation;
	uint64_t offset, length;
	uint32_t n_writes;
	struct op *op; /* the read in flight; NULL: the piece is complete */
	int slot;      /* slot of the staging area, once complete */
	struct worker *worker;
	struct readahead *prev, *next; /* broker->readaheads, oldest first */
};

/* Shorter reads start no readahead. */
#define AHEAD_MIN (128u << 10)

/*
 * Notes that op, not added yet, reads [offset, offset + length) ahead. Drops the previous
 * piece. Returns: NULL when too many pieces are in flight, or without memory.
 */
struct readahead *readahead_new(struct broker *broker, struct allocation *allocation,
				uint64_t offset, uint64_t length, struct op *op,
				struct op **ready);

/* Drops a piece. A work waiting for the slot gets it and is put on *ready. */
struct readahead *readahead_free(struct broker *broker, struct readahead *readahead,
				 struct op **ready);

/* The piece for this read, complete or in flight; NULL: no valid piece. */
struct readahead *readahead_find(const struct allocation *allocation, uint64_t offset,
				 uint64_t length);
