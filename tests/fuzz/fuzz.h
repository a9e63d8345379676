/* SPDX-License-Identifier: MIT */
/*
 * What every fuzz target has: libFuzzer calls fuzz() with bytes that anybody might send.
 * The sanitizers find what the bytes break; must() states what the callers rely on.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "base/def.h"

#define fuzz LLVMFuzzerTestOneInput

__attribute__((visibility("default"))) int fuzz(const uint8_t *bytes, size_t size);

#define must(condition)                                                            \
	do {                                                                       \
		if (!(condition)) {                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, \
				#condition);                                       \
			abort();                                                   \
		}                                                                  \
	} while (0)
