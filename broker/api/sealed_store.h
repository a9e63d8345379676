/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

struct broker;
struct caller;
struct completion;
struct token;

/* Writes a value to `sealed` of an allocation, for the table of attributes. */
void sealed_store(struct broker *broker, struct token token, const struct caller *caller,
		  const char *value, size_t length, struct completion *wait);
