/* SPDX-License-Identifier: MIT */
/*
 * Allocations: the record of each, its kinds and states, and the table of names.
 *
 * The states of an allocation are MAKING (the name is taken, the allocation invisible),
 * then LIVE, then FREED (out of the tree; the struct stays until its last use has ended
 * and its memory is given back). LIVE changes to LOST when the process that held the
 * bytes dies. `busy` is LIVE with works under way.
 *
 * All under the registry's lock. A field that points to another folder's struct belongs
 * to that folder.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "model/folder.h"

struct block;	 /* broker/memory */
struct lease;	 /* broker/memops */
struct lifetime; /* broker/memops */
struct managed;	 /* model/managed_ranges.h */
struct move;	 /* broker/memops */
struct origin;	 /* model/origin.h */
struct owner;
struct readahead; /* broker/memops */
struct refusal;
struct registry;
struct stream;
struct tensors;
struct use;
struct withdrawal; /* broker/memops */
struct work;

enum allocation_kind {
	KIND_DEVICE,
	KIND_DIRECT,
	KIND_ASYNC,
	KIND_MANAGED,
	KIND_HOST,
	N_KINDS,
};

enum allocation_state {
	ALLOCATION_MAKING,
	ALLOCATION_LIVE,
	ALLOCATION_LOST,
	ALLOCATION_FREED,
};

/* An allocation that ends with something: its place there. */
struct lifetime_member {
	struct allocation *allocation;
	struct lifetime *lifetime;
	struct lifetime_member *prev, *next;
	uint32_t record; /* of the lifetime; 0: none that outlives the broker */
};

/*
 * Bytes of leased allocations, and how many of these bytes belong to freed allocations.
 */
struct lease_totals {
	uint64_t bytes, freed_bytes;
};

/* What few allocations have: allocation_make_rare() gives it to one. */
struct allocation_rare {
	struct lease *leases; /* memops/lease.h */
	uint32_t n_leases;
	uint64_t n_changed; /* number of the last change the leases are told of later */
	uint32_t n_write_leases;
	uint32_t n_opening;	      /* opens of `data` for reading and writing that the
					 kernel has perhaps not carried out */
	uint32_t n_writers_departing; /* of n_departing, leases for writing */
	uint32_t n_departing; /* leases that have ended with their process, which may
				 still have the memory mapped */
	struct withdrawal *withdrawals; /* newest first; memops/withdrawal.c */
	struct move *move;		/* out of a shared block; broker/memops */
	struct block *former_block; /* shared; left by a move while readers went on there;
				       NULL: none */
	uint32_t former_cell;	    /* in former_block */
	int32_t move_error;	    /* errno of the last move; 0: none has failed */
	struct readahead *readahead; /* reading ahead; broker/memops */
	char *zeroing_failure;	     /* the sentence of zeroing_failed; NULL: unknown */
	char *lost_why; /* LOST: the end of the worker ("was reset"); NULL: unknown */
	struct tensors *tensors;	  /* NULL: none */
	struct lifetime_member *lifetime; /* NULL: it ends with nothing */
	struct allocation *worker_prev,
		*worker_next; /* of owner->in_worker; worker_prev is NULL outside */
};

struct allocation {
	/* Plain values, enough to make the allocation again. */
	uint64_t id;
	uint64_t size;
	uint64_t address;
	int64_t created_s;
	int64_t written_ns; /* since 1970: last write; 0: never */
	int64_t used_ns;    /* since 1970: last read, launch or lease; 0: never */
	uint32_t pointer_generation; /* goes up when earlier pointers become invalid */
	gid_t gid;
	uint16_t mode; /* rw bits */
	uint8_t kind;  /* enum allocation_kind */
	uint8_t device;
	uint8_t guard;		 /* enum guard of broker/memory */
	uint8_t state;		 /* enum allocation_state */
	bool map_readers : 1;	 /* readers, too, may lease device memory */
	bool sealed : 1;	 /* nobody writes it any more; never undone */
	bool lent : 1;		 /* a program had the file of host memory open for
				    writing */
	bool lent_to_others : 1; /* a program of another user than the owner and root */
	bool replaced : 1;	 /* FREED: another was published at its name */
	bool has_descriptor : 1; /* charged to the owner, together with the block; in a
				    shared block for one of its own (memops/move.h) */
	bool charged : 1;	 /* not durable: the owner is charged for the memory */
	bool restoring : 1;	 /* another process of the worker is making the allocation
				    again */
	bool ending : 1;	 /* as the last broker left it, until freed again
				    (api/resume_memory.c); not saved meanwhile */
	bool orphans_write : 1;	 /* its rights have changed since workers of the last
				    broker had it, which may still write
				    (process/orphans.h) */
	bool handed_on : 1;	 /* to an owner whose mappings are not noted yet
				    (memops/permissions.c) */
	bool release_parked : 1; /* the op of `release` waits for the last lease and
				departing process */
	struct entry entry;	 /* its name */
	char *tag;		 /* NULL: none; allocation_set_tag() */
	struct managed *managed; /* kind managed; else NULL */

	struct origin *origin; /* the cgroup that asked for it; NULL: unknown */
	struct allocation *origin_prev, *origin_next;

	/* The current place of the memory. */
	struct owner *owner;
	struct block *block;   /* durable and host memory */
	struct stream *stream; /* async: the stream of the allocation; managed: the stream
				  of its attachment; NULL: none. Counted there */
	uint32_t cell;	       /* in a shared block */
	uint32_t worker_epoch; /* not durable: epoch of the worker process that holds the
				  memory */

	/* Zeros that are owed (op/zero.h). */
	uint64_t zeroing_from; /* the least offset of the zeroings that are not done; the
				  next broker owes them */
	uint64_t zeros_from;   /* zeros are owed from here to the end; size: none are */
	uint32_t zeroing_failed; /* number of the last zeroing that failed; 0: none */
	uint32_t n_zeroings;	 /* number of zeroings begun */
	uint32_t n_zeroing; /* zeroings, and works that take zeros, that are not done */

	uint32_t n_works;    /* in the order (model/order.h) */
	uint32_t n_writes;   /* of all works that ever were, those that write; wraps */
	uint32_t n_files;    /* loads and saves under way; memops/file.c */
	uint16_t n_unasked;  /* of n_works, readahead that nobody asked for */
	int16_t write_error; /* errno of the last failed write that had been answered
				early */
	uint32_t n_write_errors;      /* number of such writes */
	struct allocation_rare *rare; /* not NULL; zeros before allocation_make_rare() */
	struct work *release;	      /* FREED: the op that frees the memory */

	/* What the next broker is told (model/save.h). */
	uint32_t record;
	uint32_t tag_record;			 /* record/texts.h; 0: none */
	uint32_t block_record, block_generation; /* of the block; 0: none */

	/* Links and caches. */
	uint32_t slot, slot_generation;
	struct use *uses;	  /* uses that later works may have to wait for */
	struct use *all_uses;	  /* uses of all works in the order, oldest first */
	struct use *lasting_uses; /* of them, those that last as long as a user likes */
	uint64_t read_next;	  /* end of the last read of data */
};

const char *kind_name(enum allocation_kind kind);
/* Returns: a kind; -EINVAL. */
int kind_find(const char *name);
/* Durable memory belongs to the broker and survives the processes that use it. */
bool kind_is_durable(enum allocation_kind kind);
/*
 * Whether the memory is on a device; managed and host memory is reachable from all
 * devices.
 */
bool kind_has_device(enum allocation_kind kind);

/* An allocation of the owner in no table and without a name. NULL: no memory. */
struct allocation *allocation_blank(struct owner *owner);

/*
 * Makes an allocation in state MAKING and takes its name.
 * Returns: 0; -EEXIST; -ENOMEM; -EDQUOT when the owner's share is used up.
 */
int allocation_new(struct allocation **ret_allocation, struct registry *registry,
		   struct folder *folder, const char *name, uint64_t size,
		   struct owner *owner);

/* The name with the folders above it; of a freed allocation, as it was. */
struct full_name allocation_name(const struct allocation *allocation);

/* Gives the allocation a `rare` of its own, until its end. Returns: 0; -ENOMEM. */
int allocation_make_rare(struct allocation *allocation);

/*
 * Charges the owner for memory of the owner's worker, once. The charge ends with the
 * memory: with the allocation, or when it is lost.
 * Returns: 0; -EDQUOT.
 */
int allocation_charge(struct allocation *allocation);

/*
 * The memory is in the process of the owner's worker, or not any more. An allocation
 * joins when it becomes LIVE, after allocation_make_rare(), and leaves when it is lost or
 * withdrawn. Does nothing for durable memory.
 */
void allocation_join_worker(struct allocation *allocation);
void allocation_leave_worker(struct allocation *allocation);

/*
 * A walk along owner->in_worker. Others may have the lock in between: the walk passes
 * over allocations that leave meanwhile. The owner stays until worker_walk_end().
 */
struct worker_walk {
	struct owner *owner;
	struct allocation *next;
	struct worker_walk *next_walk; /* of owner->worker_walks */
};

void worker_walk_begin(struct worker_walk *walk, struct owner *owner);
/* NULL: there are no more. */
struct allocation *worker_walk_next(struct worker_walk *walk);
void worker_walk_end(struct worker_walk *walk);

/* MAKING to LIVE: the allocation becomes visible, is counted and saved. */
void allocation_publish(struct registry *registry, struct allocation *allocation);

/* The same without a time and a save, for an allocation that was there before. */
void allocation_count(struct registry *registry, struct allocation *allocation);

/*
 * LIVE to LOST, after the process that held the bytes died; why as in "the worker WHY".
 */
void allocation_lose(struct registry *registry, struct allocation *allocation,
		     const char *why);

/* A program of the user gets the file of host memory, open for writing. Saves. */
void allocation_lend(struct allocation *allocation, uid_t uid);

/* Only names the owner; allocation_give() counts, too. */
void allocation_set_owner(struct allocation *allocation, struct owner *to);

/* Gives a LIVE allocation to another owner: the totals of both. Shares are the caller's.
 */
void allocation_give(struct registry *registry, struct allocation *allocation,
		     struct owner *to);

/* Changes the allocation's stream; NULL: no stream. */
void allocation_set_stream(struct allocation *allocation, struct stream *stream);

/* Removes the allocation from the tree and the names; its bytes remain counted. */
void allocation_withdraw(struct registry *registry, struct allocation *allocation);

/*
 * Frees the allocation and subtracts it from the totals. Its memory is given back
 * already.
 */
struct allocation *allocation_free(struct registry *registry,
				   struct allocation *allocation);

/*
 * Finds an allocation in any state by its full name, as the caller may look it up.
 * NULL: refused, with -ENOENT, -EACCES, -ENOTDIR or -EISDIR.
 */
struct allocation *allocation_find(struct registry *registry, const char *name,
				   const struct caller *caller, struct refusal *refusal);

/* The same; an allocation that is being made is not there yet (-ENOENT). */
struct allocation *allocation_find_made(struct registry *registry, const char *name,
					const struct caller *caller,
					struct refusal *refusal);

/* Whether it has the number that a line gave; 0: none given. Returns: 0; -ESTALE. */
int allocation_check_id(const struct allocation *allocation, uint64_t id,
			struct refusal *refusal);

/* The allocation of an entry; NULL: it is a folder's, or there is none. */
struct allocation *allocation_of(struct entry *entry);

struct allocation *allocation_get(const struct registry *registry, uint32_t slot,
				  uint32_t generation);

/* Sets the time of the last write, shown as last_write and mtime. */
void allocation_written(struct allocation *allocation);

/* Sets the time of the last other use, shown as atime. */
void allocation_used(struct allocation *allocation);

/* That time. Leased memory may be in use at any time: now. 0: never. */
int64_t allocation_last_used(const struct allocation *allocation);

/* Refuses an operation on a lost allocation. Returns: -ESTALE. */
int refuse_lost(struct refusal *refusal, const struct allocation *allocation);

/* Refuses to write a sealed allocation. Returns: -EPERM. */
int refuse_sealed(struct refusal *refusal, const struct allocation *allocation);
