/* SPDX-License-Identifier: MIT */
/*
 * Figures of the broker as OpenMetrics text.
 *
 * One table in metrics.c has every metric. The figures are copied under registry.lock,
 * owner by owner, and printed afterwards; no worker and no driver is asked.
 */
#pragma once

struct broker;
struct text;
struct token;

/* As attribute.print. Takes registry.lock. Returns: 0; -ENOMEM. */
int metrics_print(struct broker *broker, struct token none, struct text *text);
