/* SPDX-License-Identifier: MIT */
/*
 * The order of uses: which work must wait for which.
 *
 * A work is anything that touches the bytes of allocations: a transfer of data, a fill, a
 * copy, a free. A work names its uses (a range, read or written) and perhaps a stream. A
 * work waits for every earlier work that conflicts: works that overlap, where at least
 * one of the two writes, and the previous work on the same stream. Works without conflict
 * run at the same time.
 *
 * Works of one chain (kernels of one worker) don't wait for each other's end. Each work
 * is sent after its predecessors, and the request lists predecessors on other streams;
 * the GPU then keeps the order. Ends are still taken in order: a work must not leave
 * before its predecessors.
 *
 * An allocation keeps only uses that later works may have to wait for. A use is dropped
 * from the list when a later use covers it and waits for it, so a thousand queued fills
 * leave a single use.
 *
 * A work whose caller may go away (a write of data) can leave before it begins. Such a
 * work drops no use from the list, so later works still find its predecessors. Any other
 * work with may_leave can be detached before it begins: its followers wait for its
 * predecessors instead, and the work ends without having run.
 *
 * A use that places changes where memory is, or who has it mapped. It reads: it waits for
 * writers, and later writers wait for it, while readers go on beside it. Two uses that
 * place keep their order.
 *
 * A use that watches asks a driver about the memory and touches no byte: it has no place
 * in the order, but the memory is not freed meanwhile.
 *
 * A work that takes memory away from a worker waits for nothing but the works of that
 * worker's chain, and within the worker, that have begun. It drops no use from the list
 * either.
 *
 * A work that syncs waits for nothing but the works of one writer of `data`.
 *
 * All under the registry's lock. order_leave.c has order_leave() and order_detach().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct allocation;
struct stream;
struct work;

struct use {
	struct work *work;
	struct allocation *allocation;
	uint64_t offset, length;
	uint64_t beyond; /* bytes behind the range that count as used, too: later works
			    on these wait for the work */
	bool write;
	bool places;  /* moves, advises or maps; such uses keep their order, like
			 writes */
	bool watches; /* uses no byte: waits for nothing, and only a free waits */
	bool listed;  /* still in the allocation's list */
	bool lasts;   /* ends when a user likes: of a kernel, or of another user than the
			 allocation's owner; set before order_add() */
	bool guest_writes; /* its worker maps the memory for writing */
	bool judged;	   /* op_charge(): the payer's groups were known ... */
	bool member;	   /* ... and `group`, the allocation's then, was among them */
	gid_t group;
	uint32_t zeroing; /* number of the zeroing that comes before this use; 0: none */
	uint64_t address; /* of the allocation, at the time of the request */
	struct use *prev, *next;
	struct use *prev_of_all, *next_of_all;
	struct use *prev_lasting, *next_lasting;
	struct use *dropped_by; /* the use of a work that may leave, in place of which
				   this use would be listed; NULL: none */
	struct use *dropped;	/* uses with this use in dropped_by */
	struct use *prev_dropped, *next_dropped;
};

/*
 * Limit of predecessors on other streams in a request; beyond the limit a work waits
 * here.
 */
#define WORK_AFTER_MAX 32

#define WORK_USES_ROOM 2

/*
 * Users decide how long kernels, loads, saves and holds take. The work of others behind
 * these takes as long.
 */
#define HOLDER_NONE    UINT64_C(0)
#define HOLDER_SEVERAL UINT64_MAX

static inline uint64_t holder_of(uid_t uid)
{
	return (uint64_t)uid + 1;
}

/* A wait is in two lists. */
struct follower {
	struct work *work;
	unsigned int back; /* its place in work->predecessors */
	bool chained;	   /* waits until the predecessor is sent, not until its end */
};

struct predecessor {
	struct work *work;
	unsigned int back; /* its place in work->followers */
};

struct work {
	struct use *uses;
	unsigned int n_uses, uses_capacity;
	struct use room[WORK_USES_ROOM]; /* uses, while they are few */
	struct stream *stream;
	const void *chain; /* NULL: none; set before order_add(), like the next five */
	bool unasked;	 /* readahead by the broker: its allocations don't show as busy */
	bool alone;	 /* begins after the end of its predecessors, even in a chain */
	bool may_leave;	 /* may leave before it begins, see order_leave() and
			    order_detach() */
	uint64_t writer; /* number of the descriptor of `data` that asked; 0: none */
	uint64_t syncs;	 /* waits only for works of this writer; its uses watch; 0: an
			    ordinary work */
	uint64_t holder; /* whose it is to end this work, as holder_of(); set before
			    order_add(). HOLDER_NONE: the broker's, so it ends soon */
	uint64_t held_by;	/* that of this work and all before it */
	const void *takes_from; /* waits only for works of this chain that have begun, of
				   its whole allocation; NULL: an ordinary work */
	const void *within; /* without a chain: has begun in this worker, which must not
			       lose the memory meanwhile; NULL: no matter */

	struct work *stream_before, *stream_after; /* neighbours on the stream */
	bool detached; /* and not done yet: waits for nothing, and does not run */

	unsigned int n_before; /* works to wait for before this work begins */
	unsigned int n_ahead;  /* unfinished predecessors in its chain, plus 1 while this
				  work is being sent */
	struct follower *followers; /* works that wait for this work */
	unsigned int n_followers, followers_capacity;
	struct predecessor *predecessors; /* works that this work waits for */
	unsigned int n_predecessors, predecessors_capacity;
	unsigned int n_waits;	 /* how often this work became a follower */
	unsigned int waits_most; /* at most */

	bool follows;	  /* order_leave()'s own */
	bool sending;	  /* from order_sending() to order_sent() */
	bool sent;	  /* the worker knows the work */
	bool ended;	  /* done, but n_ahead is not zero yet: becomes ready once more */
	uint64_t sent_id; /* the worker's number for the work */
	unsigned int n_after, n_after_due;
	uint64_t after[WORK_AFTER_MAX]; /* sent ids of works that the worker waits for */

	struct work *next_ready;
};

/* Makes room for n uses. Returns: 0; -ENOMEM. */
int work_reserve_uses(struct work *work, unsigned int n);

/* Frees uses, followers and predecessors. */
void work_deinit(struct work *work);

/*
 * Adds a use before order_add(). More than WORK_USES_ROOM uses need work_reserve_uses().
 */
void work_use(struct work *work, struct allocation *allocation, uint64_t offset,
	      uint64_t length, bool write);

/* Whether a work of a chain or within a worker is on its way to the worker, or there. */
bool work_has_begun(const struct work *work);

/* Whether the second work waits for the first one. */
bool work_is_before(const struct work *work, const struct work *after);

/*
 * Puts the work at the end of the order, where it waits for `most` works at most. Each
 * of a thousand reads would wait for each of a thousand writes before them: without a
 * bound that takes memory, and time under the lock, without end.
 *
 * Returns: 0, and the work is ready when n_before is zero; -EBUSY when it would wait for
 * more works, -ENOMEM, with nothing changed.
 */
int order_add_within(struct work *work, unsigned int most);
/* order_add_within() for works of the broker's own, which wait for any number. */
int order_add(struct work *work);

/*
 * Removes a work that has not begun. Followers with nothing left to wait for are put in
 * front of *ready, as in order_done().
 *
 * Returns: false when the work may not leave, waits for nothing any more, or when what
 * its followers wait for instead is too much to find under the lock, or to note. Then
 * the work stays, and its turn comes.
 */
bool order_leave(struct work *work, struct work **ready);

/* For order_detach() of several works under one hold of the lock. Begins as zeros. */
struct detaching {
	uint64_t pairs_left; /* pairs of a follower and a predecessor that may still be
				looked at, some 10 ns each */
	/* Behind this work on its stream come detached ones, then `after`; NULL: none. */
	const struct work *last;
	struct work *after;
};

/*
 * For a work with may_leave that has not begun, and never will: nothing is left to wait
 * for, so order_done() may follow at once, and its followers wait for its predecessors
 * where they conflict. Returns: 0; -EBUSY when that takes more than all->pairs_left,
 * -ENOMEM: the work keeps its place.
 */
int order_detach(struct work *work, struct detaching *all);

/*
 * Whether `holds` is true of every work that a work, not added yet, would wait for
 * because of its uses.
 */
bool order_all_before(const struct work *work, bool (*holds)(const struct work *before));

/*
 * Changes `unasked`: false when somebody wants the work; true when the work is answered
 * early.
 */
void order_set_unasked(struct work *work, bool unasked);

/*
 * Marks a work of a chain, with nothing to wait for, as being sent. The work may end
 * before order_sent(), but leaves only after order_sent().
 */
void order_sending(struct work *work);

/*
 * Ends order_sending(). The worker knows the work by id; followers in the same chain may
 * become ready, as in order_done(). id 0: the work could not be sent.
 * Returns: whether the work has ended and has to leave now.
 */
bool order_sent(struct work *work, uint64_t id, struct work **ready);

/*
 * Removes a work that is done, well or badly, and whose n_ahead is zero. Followers with
 * nothing left to wait for are put in front of *ready, linked by next_ready. A ready work
 * begins; a ready work that has ended already leaves.
 */
void order_done(struct work *work, struct work **ready);
