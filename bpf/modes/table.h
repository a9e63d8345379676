/* SPDX-License-Identifier: MIT */
/* The table of processes, by what they hold. */
#pragma once

#include "output.h"

#include <stdio.h>

/*
 * Prints it: those that hold most of the GPU's memory first, then by their peak. Sizes
 * are bytes; on a screen they are short, and processes that have ended are left out.
 */
void table_print(const struct tracer *tracer, FILE *file, bool short_sizes);
