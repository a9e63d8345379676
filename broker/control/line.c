/* SPDX-License-Identifier: MIT */
#include "control/line.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "model/registry.h"

/* The index of a key in the grammar; -1: unknown. */
static int key_find(const struct grammar *grammar, const char *word, size_t length)
{
	for (int i = 0; grammar->keys && grammar->keys[i]; i++) {
		if (strlen(grammar->keys[i]) == length &&
		    memcmp(grammar->keys[i], word, length) == 0)
			return i;
	}
	return -1;
}

static int line_add_key(struct line *line, const char *word,
			const struct grammar *grammar, struct refusal *refusal)
{
	const char *equals = strchr(word, '=');
	int length = (int)(equals - word);
	int key = key_find(grammar, word, (size_t)length);

	if (key < 0)
		return refuse(refusal, EINVAL, "unknown key %.*s in %s", MIN(length, 64),
			      word, word);
	if (line->values[key])
		return refuse(refusal, EINVAL, "key %s is given twice: %s=%s and %s",
			      grammar->keys[key], grammar->keys[key], line->values[key],
			      word);
	line->values[key] = equals + 1;
	return 0;
}

static int line_add_arg(struct line *line, const char *word, struct refusal *refusal)
{
	if (!line->args)
		line->args = calloc(LINE_ARGS_MAX, sizeof(*line->args));
	if (!line->args)
		return refuse(refusal, ENOMEM, "no memory for the line");
	if (line->n_args == LINE_ARGS_MAX)
		return refuse(refusal, E2BIG, "there are more than %d arguments",
			      LINE_ARGS_MAX);
	line->args[line->n_args++] = word;
	return 0;
}

/* The number of operands in the grammar from index n on. */
static int operands_left(const struct grammar *grammar, int n)
{
	int left = 0;

	while (grammar->operands[n + left])
		left++;
	return left;
}

static int line_add_word(struct line *line, const char *word, int *n_operands,
			 const struct grammar *grammar, struct refusal *refusal)
{
	int left = operands_left(grammar, *n_operands);
	const char *equals = strchr(word, '=');

	/* A word with `=` is a key, known or not, if all operands left are optional. */
	if (equals && left && left <= grammar->n_optional) {
		*n_operands += left;
		left = 0;
	}
	if (equals && left && key_find(grammar, word, (size_t)(equals - word)) >= 0)
		return refuse(refusal, EINVAL, "%s is missing before %s",
			      grammar->operands[*n_operands], word);
	if (left) {
		line->operands[(*n_operands)++] = word;
		return 0;
	}
	if (!equals && grammar->args)
		return line_add_arg(line, word, refusal);
	if (!equals)
		return refuse(refusal, EINVAL, "nothing is expected at %s but KEY=VALUE",
			      word);
	return line_add_key(line, word, grammar, refusal);
}

int line_parse(struct line *line, const char *bytes, size_t length,
	       const struct grammar *grammar, struct refusal *refusal)
{
	char *rest, *word;
	int n_operands = 0, r;

	*line = (struct line){ 0 };
	if (length > LINE_MAX_LENGTH)
		return refuse(refusal, E2BIG, "the line is longer than %d bytes",
			      LINE_MAX_LENGTH);
	if (memchr(bytes, '\0', length))
		return refuse(refusal, EINVAL, "the line has a NUL byte in it");
	line->bytes = strndup(bytes, length);
	if (!line->bytes)
		return refuse(refusal, ENOMEM, "no memory for the line");

	rest = line->bytes;
	while ((word = strsep(&rest, " \t\r"))) {
		if (!*word)
			continue;
		r = line_add_word(line, word, &n_operands, grammar, refusal);
		if (r < 0)
			return r;
	}
	if (operands_left(grammar, n_operands) > grammar->n_optional)
		return refuse(refusal, EINVAL, "%s is missing",
			      grammar->operands[n_operands]);
	return 0;
}

void line_deinit(struct line *line)
{
	free(line->bytes);
	free(line->args);
	*line = (struct line){ 0 };
}

int line_size(const char *word, const char *what, uint64_t *ret_size,
	      struct refusal *refusal)
{
	int r = size_parse(word, ret_size);

	if (r == -EOVERFLOW)
		return refuse(refusal, EOVERFLOW, "%s %s does not fit in 64 bits", what,
			      word);
	if (r < 0)
		return refuse(refusal, EINVAL,
			      "%s %s is no number of bytes (as 4096, 4K or 1024xf32)",
			      what, word);
	return 0;
}

int line_number(const char *word, const char *what, uint64_t most, uint64_t *ret_number,
		struct refusal *refusal)
{
	int r = number_parse(word, ret_number);

	if (r == 0 && *ret_number > most)
		r = -EINVAL;
	if (r < 0)
		return refuse(refusal, EINVAL, "%s %s is no number up to %llu", what,
			      word, (unsigned long long)most);
	return 0;
}

int line_wait(const char *word, bool *ret_wait, struct refusal *refusal)
{
	*ret_wait = !word || strcmp(word, "1") == 0;
	if (!*ret_wait && strcmp(word, "0") != 0)
		return refuse(refusal, EINVAL, "wait=%s is neither 0 nor 1", word);
	return 0;
}

int line_name(const char *word, const char *what, struct refusal *refusal)
{
	int r = name_check(word);

	if (r == -ENAMETOOLONG)
		return refuse(refusal, ENAMETOOLONG,
			      "%s %.64s... is longer than %d bytes", what, word,
			      OBJECT_NAME_MAX);
	if (r < 0)
		return refuse(
			refusal, EINVAL,
			"%s %s is no name: a letter, digit or _, then those and . or -",
			what, word);
	return 0;
}

int line_range(const char *offset, const char *length, struct range *ret_range,
	       struct refusal *refusal)
{
	struct range range = *ret_range;
	int r;

	if (offset) {
		r = line_size(offset, "offset", &range.offset, refusal);
		if (r < 0)
			return r;
	}
	if (length) {
		r = line_size(length, "length", &range.length, refusal);
		if (r < 0)
			return r;
		if (range.length == 0)
			return refuse(refusal, EINVAL, "length %s is nothing", length);
		range.has_length = true;
	}
	*ret_range = range;
	return 0;
}

int line_place(const char *word, char ret_name[65], struct range *ret_range,
	       struct refusal *refusal)
{
	const char *plus = strchrnul(word, '+');
	_cleanup_free_ char *name = strndup(word, (size_t)(plus - word));
	int r;

	if (!name)
		return refuse(refusal, ENOMEM, "no memory for the line");
	r = line_name(name, "allocation", refusal);
	if (r < 0)
		return r;
	strcpy(ret_name, name);
	*ret_range = (struct range){ 0 };
	return *plus ? line_range(plus + 1, NULL, ret_range, refusal) : 0;
}
