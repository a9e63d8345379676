/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

struct broker;
struct caller;
struct completion;
struct token;

/* For the table of attributes: a value is written to the allocation's `sealed`. */
void sealed_store(struct broker *broker, struct token token, const struct caller *caller,
		  const char *value, size_t length, struct completion *wait);
