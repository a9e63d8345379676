/* SPDX-License-Identifier: MIT */
/* Numbers and names for people. */
#pragma once

#include "base/def.h"
#include "symbol.h"

#include <linux/types.h>
#include <stdio.h>

/* 1536 as "1.5K", for a screen. */
void format_size(uint64_t bytes, char ret_text[16]);

/* The ending of a noun that is counted. */
static inline const char *format_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/*
 * A histogram whose slot N counts 2^N up to 2^(N+1)-1, from its first slot that is used
 * to its last; nothing if none is.
 */
void format_histogram(FILE *file, const char *what, const __u64 *slots, size_t n);

/*
 * A name that a traced program has chosen, up to its NUL or `max` bytes, filled up with
 * spaces to `width` columns. Only text reaches the terminal: control characters, bytes
 * that are not UTF-8 and characters that turn the direction of writing are printed as
 * \xHH, so that no name can colour the screen or look like a line of the tool. All modes
 * for people print foreign names with this function.
 */
void format_name(FILE *file, const char *name, size_t max, int width);

/* A stack, a frame on each line. */
void format_stack(FILE *file, const struct stack *stack, int indent);
