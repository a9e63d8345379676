/* SPDX-License-Identifier: MIT */
/*
 * Looks for two records of a type with one slot or one name, and for names in a folder
 * that are alike across types. Each record takes the same time however many there are:
 * the next broker answers nobody before all are checked.
 *
 * Takes records whose values nobody has checked yet: a slot out of range and a name
 * without an end are like no other.
 */
#pragma once

#include "record/records.h"

#define RECORD_SLOTS (1u << 23)

/* A record that has something in common with one seen before. */
struct twin {
	enum record_type type;
	uint32_t index;
	const char *sentence; /* says what */
};

/* Returns: 0; -EINVAL with *ret_twin; -ENOMEM. */
int find_same_slots(const struct records *records, struct twin *ret_twin);

/* Names seen so far, of records that stay as they are. */
struct seen_names;

/* Returns: for seen_names_free(); NULL: no memory. */
struct seen_names *seen_names_new(const struct records *records);
struct seen_names *seen_names_free(struct seen_names *seen);

/*
 * Adds the records `first` to `last` of a type; several threads may do so at the same
 * time. Returns: 0; -EINVAL with *ret_twin.
 */
int seen_names_add(struct seen_names *seen, enum record_type type, uint32_t first,
		   uint32_t last, struct twin *ret_twin);
