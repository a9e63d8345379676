/* SPDX-License-Identifier: MIT */
/*
 * The file `metrics`: figures of the broker as OpenMetrics text.
 *
 * One table in metrics.c has every metric. The figures are copied under registry.lock,
 * owner by owner, and printed afterwards; no worker and no driver is asked.
 */
#pragma once

#include "base/histogram.h"
#include "model/object.h"

#define VERBS_MAX 32

struct broker;
struct caller;
struct completion;
struct verb;

struct metrics {
	struct histogram lines[VERBS_MAX]; /* by row of the table of verbs */
};

/* A line of the verb has been answered; of a verb outside of the table it is not counted.
 * No lock is needed. */
void metrics_add_line(struct metrics *metrics, const struct verb *verb, uint64_t ns);

/* The request of the attribute: done's bytes are the text. */
void ask_metrics(struct broker *broker, struct token token, const struct caller *caller,
		 struct completion *wait);
