/* SPDX-License-Identifier: MIT */
/*
 * Descriptors with a record: blocks, images, lifetimes, texts of `tensors` and worker
 * processes. The keeper has a copy of the descriptor before the record is saved.
 */
#pragma once

#include <stdint.h>

#include "keep/keep.h"
#include "record/records.h"

struct memory;
struct refusal;

/*
 * Takes a record and gives the keeper a copy of the descriptor. The keeper closes the
 * forgotten ones first, so a user's loop does not fill the keeper. May wait for the
 * keeper: without the registry's lock, outside of any group. Returns: 0, with *ret_record
 * 0 where no records are kept; -EMFILE, where the keeper has no room, and -errno, with 0.
 */
int kept_add(const struct memory *memory, enum record_type type, int fd,
	     uint32_t *ret_record);

/* Refuses for an error of kept_add(). Returns: -EMFILE; -ENOMEM. */
int kept_refuse(int error, struct refusal *refusal);

/* The keeper may close the copies forgotten until now. Outside of any group. */
void kept_settle(const struct memory *memory);

/* The keeper's copy of a live record's descriptor. Of kind 0 for record 0: there is none.
 */
struct keep_key kept_key(const struct memory *memory, enum record_type type,
			 uint32_t record);

/*
 * Waits until the keeper has closed its copy, so that the caller's close is the last. The
 * record was dropped before, perhaps in a group of another thread. No lock held.
 */
void kept_end(const struct memory *memory, struct keep_key key);

/* Drops the record. Returns: for kept_end(). */
struct keep_key kept_unrecord(const struct memory *memory, enum record_type type,
			      uint32_t record);

/* The keeper closes its copy: see keep_forget(). In the group that drops the record. */
void kept_forget(const struct memory *memory, struct keep_key key);

/* The last broker's descriptor of a live record, for the caller; -1: none. */
int kept_take(const struct memory *memory, enum record_type type, uint32_t record);
