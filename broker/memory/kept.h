/* SPDX-License-Identifier: MIT */
/*
 * Descriptors with a record: blocks, images, lifetimes and texts of `tensors`. The keeper
 * has a copy of the descriptor before the record is saved.
 */
#pragma once

#include <stdint.h>

#include "record/records.h"

struct memory;

/*
 * Takes a record and gives the keeper a copy of the descriptor.
 * Returns: 0, with *ret_record 0 where no records are kept; -errno, with 0.
 */
int kept_add(const struct memory *memory, enum record_type type, int fd,
	     uint32_t *ret_record);

/* The keeper closes its copy: see keep_forget(). record 0: nothing. */
void kept_forget(const struct memory *memory, enum record_type type, uint32_t record);

/* The same, and drops the record. */
void kept_drop(const struct memory *memory, enum record_type type, uint32_t record);

/* The last broker's descriptor of a live record, for the caller; -1: none. */
int kept_take(const struct memory *memory, enum record_type type, uint32_t record);
