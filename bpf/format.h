/* SPDX-License-Identifier: MIT */
/* Numbers and names for people. */
#pragma once

#include "base/def.h"
#include "symbol.h"

#include <linux/types.h>
#include <stdio.h>

/* 1536 as "1.5K", for a screen. */
void format_size(uint64_t bytes, char ret_text[16]);

/* The ending of a counted noun. */
static inline const char *format_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/*
 * A histogram whose slot N counts 2^N up to 2^(N+1)-1, from the first used slot to the
 * last; nothing for an empty histogram.
 */
void format_histogram(FILE *file, const char *what, const __u64 *slots, size_t n);

/*
 * A name chosen by a traced program, up to a NUL or `max` bytes, filled up with spaces to
 * `width` columns. Only text reaches the terminal: control characters, bytes other than
 * UTF-8 and characters for the direction of writing are printed as \xHH, so that no name
 * can colour the screen or look like a line of the tool. All modes for people print
 * foreign names with this function.
 */
void format_name(FILE *file, const char *name, size_t max, int width);

/* A stack, a frame on each line. */
void format_stack(FILE *file, const struct stack *stack, int indent);
