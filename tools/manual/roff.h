/* SPDX-License-Identifier: MIT */
/*
 * Manual pages are made while gpumem is built: a hand-written text in docs/, in which a
 * line `@PART@` stands for what a table prints.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct roff_part {
	const char *name; /* of the line, without the @ */
	void (*print)(void);
};

/* Copies stdin to stdout, with the parts and `@version@` filled in. Returns: whether
 * stdin and stdout did without an error. */
bool roff_fill(const char *version, const struct roff_part *parts, size_t n);

/* Prints plain words. */
void roff_print(const char *words);

/* Prints a usage; its words in capitals are placeholders. */
void roff_usage(const char *usage);
