/* SPDX-License-Identifier: MIT */
/*
 * The registry: all objects, by name and by token.
 *
 * The registry owns the objects and knows nothing of files and GPUs. A field that points
 * to another layer's struct belongs to that layer. `lock` guards everything and is held
 * only for moments, never during a call to a driver, a worker or a callback. Outside the
 * registry objects are known by tokens.
 */
#pragma once

#include <pthread.h>

#include "base/handle_table.h"
#include "base/token_ends.h"
#include "model/allocation.h"
#include "model/device.h"
#include "model/folder.h"
#include "model/managed_ranges.h"
#include "model/meter.h"
#include "model/object.h"
#include "model/shares.h"

#define FREED_KEPT 1024

/* An allocation freed recently, to name it in a failure through an old descriptor. */
struct freed {
	struct token token;
	uint64_t id;
	char *name; /* with the folders above it; NULL: unknown */
};

struct records;	     /* broker/record */
struct subordinates; /* broker/base */
struct user_names;   /* broker/base */

/* Ids are given once, for each type of object. */
enum id_type { ID_ALLOCATION, ID_STREAM, ID_MODULE, ID_FOLDER, ID_FUNCTION, N_ID_TYPES };

struct registry {
	pthread_mutex_t lock;
	bool shutting_down;  /* nothing new is accepted */
	uint64_t n_busy;     /* ops and others that must end before the broker */
	pthread_cond_t idle; /* n_busy, or the number of worker processes, reached zero */
	struct freed freed[FREED_KEPT]; /* a ring */
	unsigned int n_freed;
	struct handle_table allocations, streams, owners, devices, modules, functions;
	struct handle_table folders;
	struct device *device_at[DEVICES_MAX]; /* by index; set at the start */
	unsigned int n_devices;
	struct folder allocation_root, module_root;
	struct stream *streams_by_name;
	struct owner *owners_by_uid;
	struct limits limits; /* for owners without limits of their own */
	struct subordinates *subordinates;
	struct owner_range *ranges;	      /* that owners are of */
	struct user_names *user_names;	      /* of the owners; NULL: nobody shows them */
	struct records *records;	      /* of the objects; NULL: none are kept */
	struct token_ends unsaved_token_ends; /* where no records are kept */
	uint64_t next_id[N_ID_TYPES];	      /* the newest; see registry_new_id() */
	unsigned int n_meters;		      /* of owners with a meter of their own */
	struct meter *shared_meter;	      /* of all other owners */
	struct meter unsaved_meter; /* the shared one, where no records are kept */
	uint64_t n_writers;	    /* descriptors of `data`, ever opened */
	bool looks_at_tensors;	    /* a thread of the view; see tensors_upload.c */
	uint64_t n_tensors;	    /* texts of `tensors`, ever made */
	uint32_t n_wire_images;	    /* wire ids of images, ever given */

	/* totals */
	uint64_t n_allocations, bytes, peak_bytes;
	uint64_t n_streams;
	uint64_t n_modules;
	uint64_t bytes_by_kind[N_KINDS];
	uint64_t n_allocations_on[DEVICES_MAX]; /* not host memory */
	uint64_t managed_on[DEVICES_MAX];	/* bytes of managed allocations */
	struct managed_totals managed; /* of visible allocations that are not lost */
	struct lease_totals leased;
	struct lease_totals leased_on[DEVICES_MAX]; /* not host memory */
};

void registry_init(struct registry *registry);
/*
 * Lets go of the lock and takes it again after a moment, so that whoever waits for the
 * lock gets it.
 */
void registry_let_others(struct registry *registry);

/*
 * A walk along the allocations of all users, which begins as { 0 }. After some hundreds
 * others have the lock for a moment: what was found before may be gone.
 */
struct allocation_walk {
	uint32_t slot; /* the next */
	unsigned int n_looks;
};

/* NULL: there are no more. */
struct allocation *allocation_walk_next(struct registry *registry,
					struct allocation_walk *walk);

/* Counts down n_busy. */
void registry_less_busy(struct registry *registry);

void registry_deinit(struct registry *registry); /* asserts that only owners are left */

/*
 * Keeps the name for registry_find_freed(), until FREED_KEPT later ones have been freed.
 */
void registry_note_freed(struct registry *registry, const struct allocation *allocation);

/* The name of a freed allocation; "?": freed too long ago. */
const char *freed_name(const struct freed *freed);

/* NULL: not known, or freed too long ago. */
const struct freed *registry_find_freed(const struct registry *registry,
					struct token token);

/* An id that neither this broker nor one before it has given. */
uint64_t registry_new_id(struct registry *registry, enum id_type type);
