/* SPDX-License-Identifier: MIT */
/*
 * Owners: the users of the broker, what they hold and what they are charged for.
 *
 * All under the registry's lock. A field that points to another folder's struct belongs
 * to that folder.
 */
#pragma once

#include <sys/types.h>

#include "base/hash.h"
#include "model/allocation.h"
#include "model/device.h"
#include "model/shares.h"
#include "record/types.h"

#define STREAMS_OF_OWNER 4096

struct meter;
struct slab_pool; /* broker/memory */
struct op;	  /* broker/op */
struct origin;
struct owner_range;
struct output; /* broker/process */
struct registry;
struct stream;
struct waiters; /* broker/memory */
struct worker;	/* broker/process */

/* A user, from the first request until nothing is left (api/owner_drop.h). */
struct owner {
	uid_t uid;
	gid_t gid; /* of the last request; GROUP_UNKNOWN: there was none */
	uint64_t bytes, peak_bytes;
	uint64_t n_allocations;
	uint64_t restarts;
	struct meter *meter;   /* model/meter.h */
	uint32_t meter_record; /* 0: shared, or no records are kept */
	struct shares shares;
	int64_t used_ms;      /* CLOCK_MONOTONIC: the last request */
	uint32_t n_readers;   /* of the output, right now */
	uint64_t n_in_worker; /* allocations made in the owner's worker, until they are
				 given back */
	struct allocation *in_worker; /* those in its process now, without those that are
					 saved and made again */
	struct worker_walk *worker_walks; /* along them */
	struct worker *worker;		  /* NULL until the first need */
	uint32_t n_coming;  /* pieces of memory on their way back; memory/reclaim.h */
	uint64_t n_arrived; /* pieces given back so far */
	struct waiters *waiters; /* for memory; the same file */
	uint32_t n_turns;   /* ops at the mover; broker/op/turn.h */
	struct op *waiting; /* ops that wait for a turn */
	uint32_t n_rooms;   /* pieces of copies in the broker's memory; the same file */
	struct op *waiting_for_room;
	struct lease_totals leased; /* of the owner's allocations */
	struct output *output;	/* of the owner's kernels; lives as long as the worker */
	struct slab_pool *pool; /* of small device and host allocations */
	struct block *still_mapped; /* memops/still_mapped.h; so the next: */
	bool looks_at_mapped;	    /* a task of the owner's lane */
	struct origin *origins;	    /* model/origin.h */
	struct stream *streams;	    /* that have names of their own */
	struct stream *defaults[DEVICES_MAX];
	uint32_t n_sent; /* kernels in the GPU's queues, on all streams of the owner */
	uint64_t wire_streams[STREAMS_OF_OWNER / 64]; /* wire ids in use, a bit each */

	/* For the next broker: how many processes of the worker, up to the last, died
	 * without a reply, and why the last one ended. */
	uint32_t n_barren;
	char end_reason[RECORD_REASON_BYTES];

	struct owner_range *range; /* of subordinate uids; NULL: of none */

	uint32_t slot, slot_generation;
	uint32_t record;	 /* model/save.h; 0: none */
	struct records *records; /* NULL: none */
	UT_hash_handle hh;
};

/*
 * The steps of owner_get(), for save.c too. owner_new() makes an owner (NULL: no memory)
 * with the meter of a record (0: a new meter). owner_list() puts an owner that has a slot
 * on the list of owners. owner_discard() frees an owner before that.
 */
struct owner *owner_new(struct registry *registry, uid_t uid, gid_t gid,
			uint32_t meter_record);
void owner_discard(struct registry *registry, struct owner *owner);
void owner_list(struct registry *registry, struct owner *owner);

/* Finds or makes the owner of a request, and notes the request's group. NULL: no memory.
 */
struct owner *owner_get(struct registry *registry, uid_t uid, gid_t gid);

/*
 * The same for a user who asks for nothing. What others say is not to be the user's
 * group: a worker may get the group's rights.
 */
#define GROUP_UNKNOWN ((gid_t)-1)
struct owner *owner_make(struct registry *registry, uid_t uid);

/* The name of an owner's folder: a plain decimal number. Returns: 0; -EINVAL. */
int uid_parse(const char *word, uid_t *ret_uid);

/* How many uids of a range (base/subordinates.h) may be owners at a time. */
#define OWNERS_OF_RANGE 32
unsigned int owners_of_range(const struct registry *registry, uint64_t user);

/* NULL: there is none. */
struct owner *owner_find(const struct registry *registry, uid_t uid);

/* Frees an owner who holds nothing. */
void owner_free(struct registry *registry, struct owner *owner);
