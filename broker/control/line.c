/* SPDX-License-Identifier: MIT */
#include "control/line.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
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

static int refuse_key(struct refusal *refusal, const char *word, int length,
		      const struct grammar *grammar)
{
	_cleanup_text_ struct text keys = TEXT_INIT;

	for (int i = 0; grammar->keys && grammar->keys[i]; i++)
		text_printf(&keys, "%s%s", i ? ", " : "", grammar->keys[i]);
	if (!keys.length)
		return refuse(refusal, EINVAL, "'%.64s' is one word too many", word);
	if (length == 0)
		return refuse(refusal, EINVAL, "'%.64s' is not KEY=VALUE", word);
	return refuse(refusal, EINVAL, "there is no key '%.*s': %s", MIN(length, 64),
		      word, text_string(&keys));
}

/* A word that should be a key: `x 1000 float32` is a common slip. */
static int refuse_word(struct refusal *refusal, const struct line *line, const char *word,
		       const struct grammar *grammar)
{
	const char *last = NULL;
	uint64_t number;
	int n = 0;

	for (; grammar->operands[n]; n++)
		last = line->operands[n];
	if (!grammar->keys)
		return refuse(refusal, EINVAL, "'%.64s' is one word too many", word);
	if (last && strcmp(grammar->operands[n - 1], "SIZE") == 0 &&
	    number_parse(last, &number) == 0)
		return refuse(refusal, EINVAL,
			      "'%.64s' is not KEY=VALUE (for a count of floats write "
			      "%.20sxf32)",
			      word, last);
	return refuse(refusal, EINVAL, "'%.64s' is not KEY=VALUE", word);
}

static int line_add_key(struct line *line, const char *word,
			const struct grammar *grammar, struct refusal *refusal)
{
	const char *equals = strchr(word, '=');
	int length = (int)(equals - word);
	int key = key_find(grammar, word, (size_t)length);

	if (key < 0)
		return refuse_key(refusal, word, length, grammar);
	if (line->values[key])
		return refuse(
			refusal, EINVAL, "%s= is given twice: '%s=%.64s' and '%.64s'",
			grammar->keys[key], grammar->keys[key], line->values[key], word);
	line->values[key] = equals + 1;
	return 0;
}

static int line_add_arg(struct line *line, const char *word, struct refusal *refusal)
{
	if (!line->args)
		line->args = calloc(LINE_ARGS_MAX, sizeof(*line->args));
	if (!line->args)
		return refuse(refusal, ENOMEM, "the broker has no memory for the line");
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
		return refuse(refusal, EINVAL, "%s is missing before '%.64s'",
			      grammar->operands[*n_operands], word);
	if (left) {
		line->operands[(*n_operands)++] = word;
		return 0;
	}
	if (!equals && grammar->args)
		return line_add_arg(line, word, refusal);
	if (!equals)
		return refuse_word(refusal, line, word, grammar);
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
		return refuse(refusal, ENOMEM, "the broker has no memory for the line");

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

/* `'WORD'` for an operand, `KEY=WORD` for the value of a key. */
static const char *quote(char text[128], const char *key, const char *word)
{
	if (key)
		snprintf(text, 128, "%s=%.64s", key, word);
	else
		snprintf(text, 128, "'%.64s'", word);
	return text;
}

int line_size(const char *word, const char *key, uint64_t *ret_size,
	      struct refusal *refusal)
{
	char quoted[128], instead[96] = "4096, 4K, 16MiB, 100MB";
	int r = size_parse(word, ret_size);
	uint64_t bytes;

	if (r == 0)
		return 0;
	quote(quoted, key, word);
	if (r == -EOVERFLOW)
		return refuse(refusal, EOVERFLOW,
			      "%s is too large: a size has at most 64 bits", quoted);
	if (size_parse_fraction(word, &bytes) == 0)
		snprintf(instead, sizeof(instead), "%s%s%llu",
			 bytes % 1024 ? "" : size_typed(bytes), bytes % 1024 ? "" : ", ",
			 (unsigned long long)bytes);
	return refuse(refusal, EINVAL, "%s is not a size: use %s or 1024xf32", quoted,
		      instead);
}

int line_number(const char *word, const char *key, uint64_t *ret_number,
		struct refusal *refusal)
{
	char quoted[128];

	if (number_parse(word, ret_number) == 0)
		return 0;
	return refuse(refusal, EINVAL, "%s is not a whole number",
		      quote(quoted, key, word));
}

int line_scalar(const char *word, struct scalar *ret_scalar, struct refusal *refusal)
{
	const char *type = scalar_type_of(word);
	int r = scalar_parse(word, ret_scalar);

	if (r == 0)
		return 0;
	if (r == -ERANGE)
		return refuse(refusal, EINVAL, "'%.64s' is outside the range of %s", word,
			      type);
	if (type)
		return refuse(refusal, EINVAL,
			      "'%.64s' is not %s and a number, such as %s:1", word, type,
			      type);
	return refuse(
		refusal, EINVAL,
		"'%.64s' is not TYPE:VALUE, such as f32:1.5; the types are " SCALAR_TYPES,
		word);
}

int line_wait(const char *word, bool *ret_wait, struct refusal *refusal)
{
	*ret_wait = !word || strcmp(word, "1") == 0;
	if (!*ret_wait && strcmp(word, "0") != 0)
		return refuse(refusal, EINVAL, "wait=%.64s is neither 0 nor 1", word);
	return 0;
}

static int refuse_name(struct refusal *refusal, const char *word, const char *what)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		"0123456789_.-";
	char wrong = word[strspn(word, allowed)];

	if (!*word)
		return refuse(refusal, EINVAL, "the name of the %s is missing", what);
	if (!wrong)
		return refuse(refusal, EINVAL,
			      "'%s' can't be a name: it begins with '%c'", word, *word);
	if (isprint((unsigned char)wrong))
		return refuse(refusal, EINVAL,
			      "'%s' can't be a name: '%c' is not allowed", word, wrong);
	return refuse(refusal, EINVAL,
		      "'%s' can't be a name: only A-Z, a-z, 0-9, '_', '.' and '-' are "
		      "allowed",
		      word);
}

int line_name(const char *word, const char *what, struct refusal *refusal)
{
	int r = name_check(word);

	if (r == -ENAMETOOLONG)
		return refuse(refusal, ENAMETOOLONG,
			      "%s '%.64s...' has %zu characters: a name has at most %d",
			      what, word, strlen(word), OBJECT_NAME_MAX);
	return r < 0 ? refuse_name(refusal, word, what) : 0;
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
			return refuse(refusal, EINVAL,
				      "length=%.64s: 1 byte is the least", length);
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
		return refuse(refusal, ENOMEM, "the broker has no memory for the line");
	r = line_name(name, "allocation", refusal);
	if (r < 0)
		return r;
	strcpy(ret_name, name);
	*ret_range = (struct range){ 0 };
	return *plus ? line_range(plus + 1, NULL, ret_range, refusal) : 0;
}
