/* SPDX-License-Identifier: MIT */
/*
 * The frame of every fuzz target. libFuzzer calls fuzz() with bytes as a stranger might
 * send them. Sanitizers find memory errors; must() states the guarantees to callers.
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
