/* SPDX-License-Identifier: MIT */
/*
 * Streams: made by users, or an owner's default stream of a device.
 *
 * All under the registry's lock.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/hash.h"

struct caller;
struct owner;
struct records;
struct registry;
struct stream_record;
struct work;

struct stream {
	uint64_t id;
	char *name;
	struct owner *owner;
	uint32_t device;
	int32_t priority;
	int64_t created_s;
	bool is_default;     /* the owner's default stream, not in the table of names */
	bool used;	     /* device and priority are fixed */
	uint32_t wire_id;    /* the worker's number for the stream */
	uint32_t made_epoch; /* epoch of the worker process that knows the stream; 0: none
				yet */
	uint32_t n_allocations; /* allocations made on the stream or attached */
	int32_t failed;	      /* errno of the first failure since the last synchronize */
	char *failure;	      /* sentence of that failure */
	uint32_t n_unawaited; /* works without a waiter */

	struct records *records;
	uint32_t record;       /* for the next broker; 0: none */
	uint32_t failure_text; /* the sentence, in the records; 0: none */

	uint32_t slot, slot_generation;
	uint32_t n_works;
	struct work *last;
	uint32_t n_sent;	    /* kernels in the GPU's queue */
	struct work *held;	    /* kernel that waits for room in this queue */
	struct stream *prev, *next; /* of owner->streams; not of default streams */
	UT_hash_handle hh;
};

/* Returns: 0; -EEXIST; -ENOMEM; -ENFILE when the owner has too many. */
int stream_new(struct stream **ret_stream, struct registry *registry, const char *name,
	       struct owner *owner, uint32_t device, bool is_default);
struct stream *stream_free(struct registry *registry, struct stream *stream);

/*
 * Makes a stream of its record, in its old slot. For save_stream.c.
 * Returns: 0; -EEXIST, -EINVAL, -ENFILE, -ENOMEM.
 */
int stream_remake(struct stream **ret_stream, struct registry *registry,
		  struct owner *owner, const struct stream_record *record);

/* So many kernels more are in the GPU's queue; negative: fewer. */
void stream_add_sent(struct stream *stream, int n);

/* Device and priority are fixed from now on. */
void stream_note_use(struct stream *stream);

/* Notes the first failure of work without a waiter. */
void stream_fail(struct stream *stream, int error, const char *sentence);

/* Returns: the errno of that failure, 0: none. *ret_sentence is the caller's. */
int stream_take_failure(struct stream *stream, char **ret_sentence);

/*
 * A work that nobody waits for begins and ends. Where the broker dies between these, the
 * next one has the stream as failed.
 */
void stream_begin_unawaited(struct stream *stream);
void stream_end_unawaited(struct stream *stream);

struct stream *stream_find(const struct registry *registry, const char *name);

/* The owner's default stream on a device, made at the first use. NULL: no memory. */
struct stream *owner_default_stream(struct registry *registry, struct owner *owner,
				    uint32_t device);

/* Whether the name belongs to default streams: `default`, `default.N`. */
bool stream_name_is_default(const char *name);

/* The caller's default stream: `default` on device 0, `default.N` on device N. */
struct stream *stream_find_default(struct registry *registry, const char *name,
				   const struct caller *caller);

/*
 * A stream whose name tells the device: a stream made by a user, or the caller's
 * `default.N`.
 * NULL: not found; also for plain `default`.
 */
struct stream *stream_find_named(struct registry *registry, const char *name,
				 const struct caller *caller);
