/* SPDX-License-Identifier: MIT */
/* Streams and their records; as model/save.h. */
#pragma once

#include "record/types.h"

struct journal;
struct owner;
struct registry;
struct stream;

/* Returns: 0; -ENOMEM, before the first save. */
int stream_record_take(struct registry *registry, struct stream *stream);
void stream_save(const struct stream *stream);
/*
 * Saves the flags and the errno alone: at the first use, and where work without a waiter
 * begins or ends.
 */
void stream_save_flags(const struct stream *stream);
/* Saves the failure with its sentence. */
void stream_save_failure(struct stream *stream);
void stream_record_drop(struct stream *stream);

/*
 * Makes a stream of its record, in the order of slots. A stream with work under way has
 * failed, unless somebody waited for the work. Returns: 0; -EEXIST, -EINVAL, -ENFILE,
 * -ENOMEM.
 */
int stream_restore(struct registry *registry, struct journal *journal,
		   struct owner *owner, uint32_t index,
		   const struct stream_record *record);

/* Fills in the record of a stream as its save does, but for the head. */
void stream_to_record(const struct stream *stream, struct stream_record *ret_record);
