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
 * Works of one chain (kernels of one worker) don't wait for each other's end: each only
 * has to be sent behind those before it, and told whose end to wait for where that one is
 * on another stream; the GPU then keeps the order. Their ends are taken in order all the
 * same: a work must not leave before those that it follows.
 *
 * An allocation keeps only the uses that later works can still have to wait for: a use
 * that a later one covers and waits for is dropped from the list, so that a thousand
 * fills in a queue leave one use behind.
 *
 * A work whose asker may go away (a write of data) can leave before it begins. So it
 * drops no use from the list: what it waits for is there for those that come after it.
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
	bool places; /* moves or advises: two such keep their order, as with writes */
	bool listed; /* in the allocation's list still */
	bool guest_writes; /* its worker gets it mapped to be written too */
	uint32_t zeroing;  /* which one of the allocation it comes after; 0: none */
	uint64_t address;  /* of the allocation when the worker was asked */
	struct use *prev, *next;
	struct use *prev_of_all, *next_of_all;
};

/* Ends of other streams that a work is told to wait for; beyond that it waits here. */
#define WORK_AFTER_MAX 32

#define WORK_USES_ROOM 2

struct follower {
	struct work *work;
	bool chained; /* waits for this one to be sent, not for its end */
};

struct work {
	struct use *uses;
	unsigned int n_uses, uses_capacity;
	struct use room[WORK_USES_ROOM]; /* uses, while they are few */
	struct stream *stream;
	const void *chain; /* NULL: none; set before order_add(), as is: */
	bool unasked;	   /* nobody asked for it: what it uses does not show as busy */
	bool alone;	   /* it begins after the end of those it follows, chain or not */
	bool may_leave;	   /* before it begins: order_leave(); no stream, no chain */

	unsigned int n_before; /* works that this one waits for before it can begin */
	unsigned int n_ahead;  /* works of its chain whose end it has to follow, and its
				  own sending */
	struct follower *followers; /* works that wait for this one */
	unsigned int n_followers, followers_capacity;

	bool sending;	  /* from order_sending() to order_sent() */
	bool sent;	  /* the worker knows of it */
	bool ended;	  /* and done, but for n_ahead: it comes as ready once more */
	uint64_t sent_id; /* what the worker calls it */
	unsigned int n_after, n_after_due;
	uint64_t after[WORK_AFTER_MAX]; /* whose end the worker waits for: sent ids */

	struct work *next_ready;
};

/* Makes room for n uses. Returns: 0; -ENOMEM. */
int work_reserve_uses(struct work *work, unsigned int n);

/* Frees what it points to. */
void work_deinit(struct work *work);

/* Adds a use before order_add(); beyond WORK_USES_ROOM in what was reserved. */
void work_use(struct work *work, struct allocation *allocation, uint64_t offset,
	      uint64_t length, bool write);

/*
 * Takes the work's place in the order.
 *
 * Returns: 0, ready when n_before is zero; -ENOMEM, and nothing was done.
 */
int order_add(struct work *work);

/*
 * Takes a work that has not begun out of the order again. What has nothing left to wait
 * for is put in front of *ready, as in order_done().
 *
 * Returns: whether it did: false where it may not leave, or waits for nothing any more.
 */
bool order_leave(struct work *work, struct work **ready);

/* Whether `holds` is true of all that the work, not added yet, would wait for by its
 * uses.
 */
bool order_all_before(const struct work *work, bool (*holds)(const struct work *before));

/* Somebody wants what nobody asked for; or it is answered, and as good as done. */
void order_set_unasked(struct work *work, bool unasked);

/*
 * The work of a chain, with nothing to wait for, is about to be sent. It may end before
 * the sender knows of it, and leaves only after that: order_sent().
 */
void order_sending(struct work *work);

/*
 * It is on its way to the worker, which knows it by that id from now on: those of its
 * chain that follow can be sent too, as in order_done(). 0: it could not be sent.
 * Returns: whether it has ended and is to leave now.
 */
bool order_sent(struct work *work, uint64_t id, struct work **ready);

/*
 * The work is done, well or badly, and n_ahead is zero: it leaves the order. What has
 * nothing left to wait for is put in front of *ready, linked by next_ready: to begin, or,
 * where it has ended before what it follows, to leave in its turn.
 */
void order_done(struct work *work, struct work **ready);
