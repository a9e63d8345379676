/* SPDX-License-Identifier: MIT */
/*
 * Parser of lines: words separated by blanks. The operands come first in their order,
 * then KEY=VALUE in any order, each key at most once. Arguments, if the verb has any, may
 * stand among the keys.
 */
#pragma once

#include "base/number.h"
#include "base/refusal.h"
#include "model/range.h"

#define LINE_MAX_LENGTH 4096
#define LINE_ARGS_MAX	1024
#define LINE_KEYS_MAX	12

/* The grammar of a line; keys end in NULL. */
struct grammar {
	const char *const *operands; /* names, for sentences; end in NULL */
	int n_optional;		     /* the last n may be missing, and are NULL then */
	const char *const *keys;
	bool args; /* words without `=` after the operands are arguments */
};

struct line {
	const char *operands[4];	   /* complete, except optional ones */
	const char *values[LINE_KEYS_MAX]; /* of grammar->keys; NULL: not given */
	const char **args;		   /* owned */
	unsigned int n_args;
	char *bytes; /* owned; the words point into it */
};

/* Parses a copy of the bytes. Returns: 0; -EINVAL, -E2BIG, -ENOMEM and a refusal. */
int line_parse(struct line *line, const char *bytes, size_t length,
	       const struct grammar *grammar, struct refusal *refusal);
void line_deinit(struct line *line);

/*
 * Parse words. Sentences quote the value of a key with the key, an operand (NULL as the
 * key) alone. Returns: 0; -EINVAL, -EOVERFLOW.
 */
int line_size(const char *word, const char *key, uint64_t *ret_size,
	      struct refusal *refusal);
int line_number(const char *word, const char *key, uint64_t *ret_number,
		struct refusal *refusal);

/* `TYPE:VALUE`. Returns: 0; -EINVAL. */
int line_scalar(const char *word, struct scalar *ret_scalar, struct refusal *refusal);

/* `wait=`: 0 or 1; NULL means 1. */
int line_wait(const char *word, bool *ret_wait, struct refusal *refusal);

/* The name of an object. Returns: 0; -EINVAL, -ENAMETOOLONG. */
int line_name(const char *word, const char *what, struct refusal *refusal);

/* `offset=` and `length=`; NULL: not given. Returns: 0; -EINVAL, -EOVERFLOW. */
int line_range(const char *offset, const char *length, struct range *ret_range,
	       struct refusal *refusal);

/* `NAME[+OFFSET]`. Returns: 0; -EINVAL, -ENAMETOOLONG, -EOVERFLOW. */
int line_place(const char *word, char ret_name[65], struct range *ret_range,
	       struct refusal *refusal);
