/* SPDX-License-Identifier: MIT */
/*
 * The file `metrics`: figures of the broker as OpenMetrics text.
 *
 * One table in metrics.c has every metric. The figures are copied under registry.lock,
 * owner by owner, and printed afterwards; no worker and no driver is asked.
 */
#pragma once

#include "model/object.h"

struct broker;
struct caller;
struct completion;

/* The request of the attribute: done's bytes are the text. */
void ask_metrics(struct broker *broker, struct token token, const struct caller *caller,
		 struct completion *wait);
