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
/* Saves the flags and the errno alone: at works that nobody waits for. */
void stream_save_flags(const struct stream *stream);
/* Saves the failure with its sentence. */
void stream_save_failure(struct stream *stream);
void stream_record_drop(struct stream *stream);

/*
 * Makes a stream of its record, in the order of slots. Work that nobody waited for ended
 * with the last broker: the stream has failed. Returns: 0; -EEXIST, -EINVAL, -ENFILE,
 * -ENOMEM.
 */
int stream_restore(struct registry *registry, struct journal *journal,
		   struct owner *owner, uint32_t index,
		   const struct stream_record *record);

/* The record that a stream has after its save, but for the state. */
void stream_to_record(const struct stream *stream, struct stream_record *ret_record);
