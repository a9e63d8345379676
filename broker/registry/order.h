/* SPDX-License-Identifier: MIT */
/*
 * The order of uses: which work must wait for which.
 *
 * A work is anything that touches the bytes of allocations: a transfer of data, a fill, a
 * copy, a free. It names its uses (a range, read or written) and perhaps a stream, and
 * waits for every earlier work that it conflicts with: one that overlaps it where one of
 * the two writes, or the one before it on its stream. Works that don't conflict run at
 * the same time.
 *
 * An allocation keeps only the uses that later works can still have to wait for: a use
 * that a later one covers and waits for is dropped from the list, so that a thousand
 * fills in a queue leave one use behind.
 *
 * All under the registry's lock.
 */
#pragma once

#include "base/def.h"

struct allocation;
struct stream;
struct work;

struct use {
	struct work *work;
	struct allocation *allocation;
	uint64_t offset, length;
	bool write;
	bool listed;	  /* in the allocation's list still */
	uint32_t zeroing; /* which one of the allocation it comes after; 0: none */
	struct use *prev, *next;
};

#define WORK_USES_MAX 2

struct work {
	struct use uses[WORK_USES_MAX];
	unsigned int n_uses;
	struct stream *stream;

	unsigned int n_before;	 /* works that this one waits for, still undone */
	struct work **followers; /* works that wait for this one, one entry each wait */
	unsigned int n_followers, followers_capacity;
	struct work *next_ready;
};

/* Adds a use before order_add(). */
void work_use(struct work *work, struct allocation *allocation, uint64_t offset,
	      uint64_t length, bool write);

/*
 * Takes the work's place in the order.
 *
 * Returns: 0, ready when n_before is zero; -ENOMEM, and nothing was done.
 */
int order_add(struct work *work);

/*
 * The work is done, well or badly: it leaves the order. What has nothing left to wait for
 * is put in front of *ready, linked by next_ready.
 */
void order_done(struct work *work, struct work **ready);
