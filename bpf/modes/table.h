/* SPDX-License-Identifier: MIT */
/* The table of processes, by memory held. */
#pragma once

#include "output.h"

#include <stdio.h>

/*
 * Prints the table: most GPU memory first, then by peak. Sizes are bytes; on a screen
 * sizes are short, and ended processes are left out.
 */
void table_print(const struct tracer *tracer, FILE *file, bool short_sizes);
