/* SPDX-License-Identifier: MIT */
/*
 * The times of lines by verb, for `metrics`. With records they are counted in these, and
 * go on after the death of the broker.
 */
#pragma once

#include "base/histogram.h"

#define VERBS_MAX 32

struct records;
struct verb;

/* By row of the table of verbs. */
struct line_times {
	struct histogram own[VERBS_MAX];
	struct histogram *verbs[VERBS_MAX]; /* of these, or in records */
};

void line_times_init(struct line_times *times);

/* From now on lines are counted in records. Returns: 0; -ENOMEM. */
int line_times_keep_records(struct line_times *times, struct records *records);

/* A line of the verb has been answered; of a verb outside of the table it is not counted.
 * No lock is needed. */
void line_times_add(struct line_times *times, const struct verb *verb, uint64_t ns);
