/* SPDX-License-Identifier: MIT */
/*
 * Descriptors with a record: blocks, images, lifetimes and texts of `tensors`. The keeper
 * has a copy of the descriptor before the record is saved.
 */
#pragma once

#include <stdint.h>

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

/*
 * The keeper closes its copy: see keep_forget(). In the group that drops the record.
 * record 0: nothing.
 */
void kept_forget(const struct memory *memory, enum record_type type, uint32_t record);

/* The same, and drops the record. */
void kept_drop(const struct memory *memory, enum record_type type, uint32_t record);

/* The last broker's descriptor of a live record, for the caller; -1: none. */
int kept_take(const struct memory *memory, enum record_type type, uint32_t record);
