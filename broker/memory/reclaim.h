/* SPDX-License-Identifier: MIT */
/*
 * Memory being given back to the driver or the kernel. A free is answered at once, and
 * the memory returns after its last use. An allocation that finds the device full, or its
 * owner's limit reached, waits here until memory has arrived. So `free` followed by
 * `alloc` of the same size always works.
 *
 * A kernel, a lease or a worker that its owner has stopped may hold freed memory for as
 * long as a user likes. Only requests of the same user wait for such a piece.
 *
 * All under the registry's lock, except n_kept.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/hash.h"
#include "base/turns.h"
#include "memory/block.h"

struct owner;
struct registry;
struct text;

/* Whose memory a piece is, and where (memory/block.h). owner NULL: nobody's. */
struct reclaim_from {
	uint32_t place;
	struct owner *owner;
};

/*
 * Embedded in a request that waits for memory. Those of an owner that wait for the same
 * memory try one after the other: users may have thousands wait, and a try is a call of
 * the driver.
 */
struct reclaim_waiter {
	struct reclaim_from from; /* with an owner: waits for any memory of that owner */
	struct owner *owner;	  /* whose request */
	uint64_t size;
	uint64_t n_arrived; /* reclaim_n_arrived() when the last try began */
	/* With the lock held: has the request try again, elsewhere. */
	void (*retry)(struct reclaim_waiter *waiter);
	struct waiters *among; /* until reclaim_leave() */
	uint64_t round;	       /* of the waiters, when this one was looked at */
	struct reclaim_waiter *prev, *next;
};

/* The requests of an owner that wait for the same memory. */
struct waiters {
	struct owner *owner;
	bool for_own;		     /* for any memory of the owner, else of the place */
	uint32_t place;		     /* of the memory */
	uint64_t round;		     /* counts how often memory may have come */
	struct reclaim_waiter *list; /* the next to try is the first */
	const struct reclaim_waiter *trying;
	struct waiters *prev, *next;	   /* of owner->waiters */
	struct waiters *prev_at, *next_at; /* of reclaim->waiters */
};

/* The pieces that a user holds, by place, and those of the user's own memory. */
struct holdings {
	uint64_t holder;
	uint64_t n[N_PLACES], n_own;
	UT_hash_handle hh;
};

/* Freed memory that users hold. */
struct held_piece {
	struct reclaim_from from;
	uint64_t size;
	uint64_t holder;
	bool counted;			/* in reclaim->holdings */
	bool is_own;			/* the holder had the memory */
	struct held_piece *prev, *next; /* prev is NULL while the piece is not listed */
};

/*
 * A request that waits in a queue for memory (`wait=`), from its first try in vain until
 * queue_leave(). Under the registry's lock.
 */
struct queue_place {
	uint32_t place; /* memory/block.h */
	uint64_t size;
	uint64_t user;	  /* subordinates_user() */
	int64_t since_ms; /* CLOCK_MONOTONIC */
	/* With the lock held: has the request tried again, elsewhere. */
	void (*retry)(struct queue_place *place);
	bool apart; /* asks the user's own worker, which may never answer: nobody waits */
	bool joined;
	bool in_hand;	/* tries just now */
	bool missed;	/* a round came by during the try */
	bool patient;	/* in queue->patient */
	uint64_t round; /* of the queue, when this one was looked at */
	struct turn turn, patient_turn;
	struct queue_place *prev, *next; /* of queue->places */
};

/* A request is passed over for the first for so long. */
#define QUEUE_PATIENCE_MS 10000
/* A round looks at so many requests. */
#define QUEUE_LOOKS 64

/*
 * One queue a place, in which users take turns (base/turns.h): a user whose request has
 * left the queue, mostly with memory, stands behind all others. When memory may have
 * arrived there is a round: the first of the queue tries, and then the patient ones, one
 * after the other. Patient are requests that have waited for QUEUE_PATIENCE_MS; those of
 * other users than the first's try only when that user has been first for as long. So
 * pieces add up for the first, also where another user has many that are patient, and
 * nobody waits for ever behind a request for more than there will ever be. Nor does a
 * round wait for the worker of a user.
 *
 * Users may have thousands wait: a round looks at the first and at some dozens of patient
 * ones, of each user in turn, and the next round goes on behind those.
 */
struct queue {
	struct queue_place *places; /* all, who came first is first */
	struct queue_place *newer;  /* of them, the first that is not patient */
	struct turns turns;	    /* all; the first has the first try */
	struct turns patient;	    /* who was looked at last is last */
	uint64_t user;		    /* of the first */
	int64_t user_since_ms;	    /* CLOCK_MONOTONIC: when that user became first */
	uint64_t round;
	bool at_first;		    /* the first is to be looked at before */
	unsigned int n_looks;	    /* in this round */
	struct queue_place *trying; /* NULL: no round is under way */
	uint64_t least_failed;	    /* in this round: no more than this is there */
	bool again;		    /* memory has arrived during the round */
};

/* The smallest request in vain since the last piece of a place arrived. */
struct in_vain {
	uint64_t size;
	uint64_t n_arrived; /* then */
};

struct reclaim {
	struct queue queues[N_PLACES];
	unsigned int n_queued;		   /* requests in the queues */
	int64_t woken_ms;		   /* all queues, last */
	unsigned int n_coming[N_PLACES];   /* pieces being given back */
	uint64_t n_arrived[N_PLACES];	   /* pieces given back so far */
	struct waiters *waiters[N_PLACES]; /* for memory of the place */
	struct in_vain in_vain[N_PLACES];
	struct held_piece *held;
	struct holdings *holdings; /* a hash table */
	unsigned int n_kept;	   /* blocks kept for lack of memory; atomic */
};

/* A piece of memory is being given back; a piece has arrived. */
void reclaim_begin(struct reclaim *reclaim, struct reclaim_from from);
void reclaim_end(struct reclaim *reclaim, struct reclaim_from from);

/* The release of a piece is postponed: nobody waits for this piece any more. */
void reclaim_postpone(struct reclaim *reclaim, struct reclaim_from from);

/* Pieces given back so far, of the owner if there is one, else of the place. */
uint64_t reclaim_n_arrived(const struct reclaim *reclaim, struct reclaim_from from);

/* The piece is held from now on, unless it was before. holder: see holder_of(). */
void reclaim_hold(struct reclaim *reclaim, struct held_piece *piece,
		  struct reclaim_from from, uint64_t size, uint64_t holder);
/* The piece is not held any more, if it was. */
void reclaim_unhold(struct reclaim *reclaim, struct held_piece *piece);

/* Appends `; N bytes of freed memory are still in use by uid 7`; nothing if none are. */
void text_add_held(struct text *text, const struct reclaim *reclaim, uint32_t device);

/* Whether memory for the request is being given back, or has been since the last try. */
bool reclaim_is_worth_waiting(const struct reclaim *reclaim,
			      const struct reclaim_waiter *waiter);

/*
 * A request of this size found no memory at a place. n_arrived: of the place, when the
 * try began.
 */
void reclaim_failed(struct reclaim *reclaim, uint32_t place, uint64_t size,
		    uint64_t n_arrived);

/*
 * Waits for memory; where some has come since the last try, the request may try at once.
 * Returns: 0; -ENOMEM.
 */
int reclaim_wait(struct reclaim *reclaim, struct reclaim_waiter *waiter);

/* Ends a wait, or the try at its end. Does nothing for a request in neither. */
void reclaim_leave(struct reclaim *reclaim, struct reclaim_waiter *waiter);

/* Such memory has come. Its owner may have been forgotten since: known by the uid. */
struct reclaimed {
	uint32_t place;
	uid_t uid;
	bool owned; /* by that uid */
};

/* While the owner is there. */
struct reclaimed reclaimed_of(struct reclaim_from from);

/*
 * Lets those who wait for such memory try again. After reclaim_end(), with no lock held.
 */
void reclaim_retry(struct reclaim *reclaim, struct registry *registry,
		   struct reclaimed reclaimed);

/* Puts a request, whose try has failed, behind the others of its user. */
void queue_join(struct reclaim *reclaim, struct queue_place *place);

/* The try of a request in the queue has failed; it stays. */
void queue_tried(struct reclaim *reclaim, struct queue_place *place);

/* The request waits no more; does nothing if it never did. */
void queue_leave(struct reclaim *reclaim, struct queue_place *place);

/* Begins a round: memory may have arrived, or time has passed. */
void queue_wake(struct reclaim *reclaim, uint32_t place);

bool queue_is_trying(const struct queue_place *place);
