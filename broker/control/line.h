/* SPDX-License-Identifier: MIT */
/*
 * Parser of lines: words separated by blanks. The operands come first in their order,
 * then KEY=VALUE in any order, each key at most once. Arguments, if the usage has any,
 * may stand among the keys.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/object.h"

struct range;
struct refusal;
struct scalar;

#define LINE_MAX_LENGTH 4096
#define LINE_ARGS_MAX	1024
#define LINE_KEYS_MAX	12

struct line {
	const char *usage;
	const char *operands[4];	 /* NULL: an optional one that is not given */
	const char *keys[LINE_KEYS_MAX]; /* KEY=VALUE, see line_value() */
	const char **args;		 /* owned */
	unsigned int n_keys, n_args;
	int n_operands;
	char *bytes; /* owned; the words point into it */
};

/*
 * Parses a copy of the bytes by a usage (usage.h). Returns: 0; -EINVAL, -E2BIG, -ENOMEM
 * and a refusal.
 */
int line_parse(struct line *line, const char *bytes, size_t length, const char *usage,
	       struct refusal *refusal);
void line_deinit(struct line *line);

/* NULL: the key is not given. */
const char *line_value(const struct line *line, const char *key);

/*
 * Parse words. Sentences quote the value of a key with the key, an operand (NULL as the
 * key) alone. Returns: 0; -EINVAL, -EOVERFLOW.
 */
int line_size(const char *word, const char *key, uint64_t *ret_size,
	      struct refusal *refusal);
int line_number(const char *word, const char *key, uint64_t *ret_number,
		struct refusal *refusal);

/* The number of an allocation, from 1. Returns: 0; -EINVAL. */
int line_id(const char *word, const char *key, uint64_t *ret_id, struct refusal *refusal);

/* `TYPE:VALUE`. Returns: 0; -EINVAL. */
int line_scalar(const char *word, struct scalar *ret_scalar, struct refusal *refusal);

/* `wait=`: 0 or 1; NULL means 1. */
int line_wait(const char *word, bool *ret_wait, struct refusal *refusal);

/* Seconds, with or without a fraction. Returns: 0; -EINVAL. */
int line_seconds(const char *word, const char *key, double least, uint32_t *ret_ms,
		 struct refusal *refusal);

/* The name of an object. Returns: 0; -EINVAL, -ENAMETOOLONG. */
int line_name(const char *word, const char *what, struct refusal *refusal);

/*
 * The name of an object in a folder, as `alice/x`. Returns: 0; -EINVAL, -ENAMETOOLONG.
 */
int line_full_name(const char *word, const char *what, struct refusal *refusal);

/* `offset=` and `length=`; NULL: not given. Returns: 0; -EINVAL, -EOVERFLOW. */
int line_range(const char *offset, const char *length, struct range *ret_range,
	       struct refusal *refusal);

/* `NAME[+OFFSET]`. Returns: 0; -EINVAL, -ENAMETOOLONG, -EOVERFLOW. */
int line_place(const char *word, struct full_name *ret_name, struct range *ret_range,
	       struct refusal *refusal);

/*
 * `path=`, which must be given: an absolute path. Each `\` with three octal digits is a
 * byte, as in fstab, since a line is split at blanks. Returns: 0; -EINVAL.
 */
int line_path(const char *word, char path[LINE_MAX_LENGTH + 1], struct refusal *refusal);

/* `cgroup=`, a path as in /proc/PID/cgroup; bytes as in `path=`. Returns: 0; -EINVAL. */
int line_cgroup(const char *word, char path[LINE_MAX_LENGTH + 1],
		struct refusal *refusal);
