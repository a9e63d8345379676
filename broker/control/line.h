/* SPDX-License-Identifier: MIT */
/*
 * The grammar of a line, in one parser: words parted by blanks, first the operands in
 * their order, then KEY=VALUE in any order, each key at most once, and where a verb has
 * arguments those among them.
 */
#pragma once

#include "base/number.h"
#include "base/refusal.h"
#include "model/range.h"

#define LINE_MAX_LENGTH 4096
#define LINE_ARGS_MAX	1024
#define LINE_KEYS_MAX	12

/* What a line may have; the keys end in NULL. */
struct grammar {
	const char *const *operands; /* names, for sentences; end in NULL */
	int n_optional;		     /* the last ones of them, NULL in a line without */
	const char *const *keys;
	bool args; /* words without `=` behind the operands are arguments */
};

struct line {
	const char *operands[4];	   /* all there, or the line was refused */
	const char *values[LINE_KEYS_MAX]; /* of grammar->keys, NULL: not given */
	const char **args;		   /* owned */
	unsigned int n_args;
	char *bytes; /* owned; the words point into it */
};

/* Takes a copy of the bytes apart. Returns: 0; -EINVAL, -E2BIG, -ENOMEM and a refusal. */
int line_parse(struct line *line, const char *bytes, size_t length,
	       const struct grammar *grammar, struct refusal *refusal);
void line_deinit(struct line *line);

/* Values of keys; what is for sentences ("offset"). Returns: 0; -EINVAL, -EOVERFLOW. */
int line_size(const char *word, const char *what, uint64_t *ret_size,
	      struct refusal *refusal);
int line_number(const char *word, const char *what, uint64_t most, uint64_t *ret_number,
		struct refusal *refusal);

/* `wait=`: 0 or 1. NULL is 1. */
int line_wait(const char *word, bool *ret_wait, struct refusal *refusal);

/* Name of an object. Returns: 0; -EINVAL, -ENAMETOOLONG. */
int line_name(const char *word, const char *what, struct refusal *refusal);

/* `offset=` and `length=`, NULL where not given. Returns: 0; -EINVAL, -EOVERFLOW. */
int line_range(const char *offset, const char *length, struct range *ret_range,
	       struct refusal *refusal);

/* `NAME[+OFFSET]`. Returns: 0; -EINVAL, -ENAMETOOLONG, -EOVERFLOW. */
int line_place(const char *word, char ret_name[65], struct range *ret_range,
	       struct refusal *refusal);
