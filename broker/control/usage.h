/* SPDX-License-Identifier: MIT */
/*
 * The usage of a line, as people read it, is also the description that lines are parsed
 * with:
 *
 *	NAME ADVICE [LOCATION] [offset=N] [length=N] [map=writers|readers] ARG...
 *
 * A word without `=` is an operand, in brackets an optional one; a digit stands for
 * itself. Each name in front of a `=` is a key; without brackets the line must have one.
 * `ARG...` or `[NAME TO]...` at the end: all other words are arguments.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct text;

/* An operand; its name is not terminated. */
struct usage_operand {
	const char *name;
	int length;
	bool optional;
};

/* Finds operand n, from 0. Returns: false when there are fewer. */
bool usage_operand(const char *usage, int n, struct usage_operand *ret_operand);

bool usage_has_key(const char *usage, const char *key, size_t length);
bool usage_has_args(const char *usage);

/* The first key that a line must have; not terminated. Returns: its length; 0: none. */
size_t usage_required_key(const char *usage, const char **ret_key);

/* Appends the names of the keys, separated by commas. */
void usage_list_keys(const char *usage, struct text *text);
