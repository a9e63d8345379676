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

/* A record that has something in common with an earlier one. */
struct twin {
	enum record_type type;
	uint32_t index;
	const char *sentence; /* says what */
};

/* Returns: 0; -EINVAL with *ret_twin; -ENOMEM. */
int find_same_slots(const struct records *records, struct twin *ret_twin);
int find_same_names(const struct records *records, struct twin *ret_twin);
