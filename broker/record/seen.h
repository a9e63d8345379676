/* SPDX-License-Identifier: MIT */
/*
 * The values of checked records that no two records of a type may have, and the names of
 * folders, which are unlike across types. Adding a record takes the same time however
 * many there are: the next broker answers nobody before all are checked.
 */
#pragma once

#include "record/records.h"

#define RECORD_SLOTS (1u << 23)

struct seen;

/* With room for all records that are there. Returns: NULL: no memory. */
struct seen *seen_new(const struct records *records);

/* Takes NULL. */
void seen_free(struct seen *seen);

/*
 * Adds a live record that check.c has found good: its slots are in range and its names
 * have an end. Returns: NULL; what the record has in common with an earlier one.
 */
const char *seen_add(struct seen *seen, enum record_type type, uint32_t index,
		     const void *record);
