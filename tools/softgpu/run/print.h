/* SPDX-License-Identifier: MIT */
/* What kernels print: kept until the program waits for them, then on its stdout. */
#pragma once

#include "base/def.h"

/* Adds what one printf made; what is oldest goes where there is no room. Any thread. */
void print_add(const char *text, size_t length, size_t limit);

void prints_flush(void);
