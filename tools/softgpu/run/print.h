/* SPDX-License-Identifier: MIT */
/* Kernels' printed text: kept until the program waits for them, then on its stdout. */
#pragma once

#include "base/def.h"

/* Adds the text of a printf; the oldest text goes where there is no room. Any thread. */
void print_add(const char *text, size_t length, size_t limit);

void prints_flush(void);
