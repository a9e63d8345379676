/* SPDX-License-Identifier: MIT */
#include "control/line.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/refusal.h"
#include "base/text.h"
#include "control/usage.h"
#include "model/folder.h"
#include "model/range.h"
#include "model/registry.h"

#define SECONDS_MAX 1000000

/* The word of a key; NULL: not given. */
static const char *line_key(const struct line *line, const char *key, size_t length)
{
	for (unsigned int i = 0; i < line->n_keys; i++) {
		if (strncmp(line->keys[i], key, length) == 0 &&
		    line->keys[i][length] == '=')
			return line->keys[i];
	}
	return NULL;
}

const char *line_value(const struct line *line, const char *key)
{
	size_t length = strlen(key);
	const char *word = line_key(line, key, length);

	return word ? word + length + 1 : NULL;
}

/* Refuses a word that is neither operand nor key: `x 1000 float32` is a common slip. */
static int refuse_word(struct refusal *refusal, const struct line *line, const char *word)
{
	struct usage_operand last;
	const char *key;
	size_t length;
	uint64_t number;

	if (usage_has_key(line->usage, word, strlen(word)))
		return refuse(refusal, EINVAL, "'%s' has no value: write %s=VALUE", word,
			      word);
	if (!strchr(line->usage, '='))
		return refuse(refusal, EINVAL, "'%.64s' is one word too many", word);
	if (line->n_operands && usage_operand(line->usage, line->n_operands - 1, &last) &&
	    strncmp(last.name, "SIZE", 4) == 0 && !line->n_keys &&
	    number_parse(line->operands[line->n_operands - 1], &number) == 0)
		return refuse(refusal, EINVAL,
			      "'%.64s' is not KEY=VALUE (for a count of floats write "
			      "%.20sxf32)",
			      word, line->operands[line->n_operands - 1]);
	if (line->n_keys)
		return refuse(refusal, EINVAL,
			      "'%.64s' is not KEY=VALUE (the value in %.64s ends at the "
			      "blank)",
			      word, line->keys[line->n_keys - 1]);
	length = usage_required_key(line->usage, &key);
	if (length)
		return refuse(refusal, EINVAL,
			      "'%.64s' is not KEY=VALUE: write %.*s=%.64s", word,
			      (int)length, key, word);
	return refuse(refusal, EINVAL, "'%.64s' is not KEY=VALUE", word);
}

static int refuse_key(struct refusal *refusal, const struct line *line, const char *word,
		      size_t length)
{
	_cleanup_text_ struct text keys = TEXT_INIT;

	usage_list_keys(line->usage, &keys);
	if (!keys.length || length == 0)
		return refuse_word(refusal, line, word);
	return refuse(refusal, EINVAL, "there is no key '%.*s': %s",
		      (int)MIN(length, (size_t)64), word, text_string(&keys));
}

static int line_add_key(struct line *line, const char *word, struct refusal *refusal)
{
	size_t length = strcspn(word, "=");
	const char *other = line_key(line, word, length);

	if (!usage_has_key(line->usage, word, length))
		return refuse_key(refusal, line, word, length);
	if (other)
		return refuse(refusal, EINVAL,
			      "%.*s= is given twice: '%.64s' and '%.64s'", (int)length,
			      word, other, word);
	line->keys[line->n_keys++] = word;
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

static int line_add_word(struct line *line, const char *word, struct refusal *refusal)
{
	const char *equals = strchr(word, '=');
	struct usage_operand operand;
	bool more = usage_operand(line->usage, line->n_operands, &operand);

	/* A word with `=` is a key, known or not, if all operands left are optional. */
	if (equals && (!more || operand.optional))
		return line_add_key(line, word, refusal);
	if (equals && usage_has_key(line->usage, word, (size_t)(equals - word)))
		return refuse(refusal, EINVAL, "%.*s is missing before '%.64s'",
			      operand.length, operand.name, word);
	if (more && isdigit((unsigned char)*operand.name) &&
	    (strlen(word) != (size_t)operand.length ||
	     memcmp(word, operand.name, strlen(word)) != 0))
		return refuse(refusal, EINVAL, "'%.64s' is not %.*s", word,
			      operand.length, operand.name);
	if (more && !line->n_keys) {
		line->operands[line->n_operands++] = word;
		return 0;
	}
	return usage_has_args(line->usage) ? line_add_arg(line, word, refusal)
					   : refuse_word(refusal, line, word);
}

int line_parse(struct line *line, const char *bytes, size_t length, const char *usage,
	       struct refusal *refusal)
{
	struct usage_operand operand;
	char *rest, *word;
	int r;

	*line = (struct line){ .usage = usage };
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
		r = *word ? line_add_word(line, word, refusal) : 0;
		if (r < 0)
			return r;
	}
	if (usage_operand(usage, line->n_operands, &operand) && !operand.optional)
		return refuse(refusal, EINVAL, "%.*s is missing", operand.length,
			      operand.name);
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

int line_id(const char *word, const char *key, uint64_t *ret_id, struct refusal *refusal)
{
	/* For those who ask, 0 stands for any allocation. */
	if (number_parse(word, ret_id) == 0 && *ret_id)
		return 0;
	return refuse(refusal, EINVAL, "%s=%.64s is not the number of an allocation", key,
		      word);
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

int line_seconds(const char *word, const char *key, double least, uint32_t *ret_ms,
		 struct refusal *refusal)
{
	char *end;
	double seconds = strtod(word, &end);

	if (end == word || *end || !(seconds >= least) || !(seconds <= SECONDS_MAX))
		return refuse(refusal, EINVAL,
			      "%s=%.64s is not a time: use seconds from %g to %d", key,
			      word, least, SECONDS_MAX);
	*ret_ms = (uint32_t)(seconds * 1000);
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

/* A part of a full name, up to the next '/'. */
static int line_name_part(const char *part, size_t length, const char *what,
			  const char *word, struct refusal *refusal)
{
	_cleanup_free_ char *name = strndup(part, length);

	if (!name)
		return refuse(refusal, ENOMEM, "the broker has no memory for the line");
	if (!*name && *word)
		return refuse(
			refusal, EINVAL,
			"'%.64s' can't be a name: folders and the %s are names with "
			"one '/' between two of them",
			word, what);
	return line_name(name, what, refusal);
}

int line_full_name(const char *word, const char *what, struct refusal *refusal)
{
	const char *part = word;
	unsigned int n_folders = 0;

	for (;;) {
		size_t length = strcspn(part, "/");
		int r = line_name_part(part, length, what, word, refusal);

		if (r < 0)
			return r;
		if (!part[length])
			return 0;
		if (++n_folders > FOLDER_DEPTH_MAX)
			return refuse(refusal, ENAMETOOLONG,
				      "'%.64s...' has more than %d folders", word,
				      FOLDER_DEPTH_MAX);
		part += length + 1;
	}
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

int line_place(const char *word, struct full_name *ret_name, struct range *ret_range,
	       struct refusal *refusal)
{
	const char *plus = strchrnul(word, '+');
	_cleanup_free_ char *name = strndup(word, (size_t)(plus - word));
	int r;

	if (!name)
		return refuse(refusal, ENOMEM, "the broker has no memory for the line");
	r = line_full_name(name, "allocation", refusal);
	if (r < 0)
		return r;
	strcpy(ret_name->text, name);
	*ret_range = (struct range){ 0 };
	return *plus ? line_range(plus + 1, NULL, ret_range, refusal) : 0;
}

static int line_bytes(const char *word, char path[LINE_MAX_LENGTH + 1],
		      struct refusal *refusal)
{
	while (*word) {
		unsigned int byte = (unsigned char)*word++;

		if (byte == '\\' && strspn(word, "01234567") >= 3) {
			byte = (unsigned int)(word[0] - '0') << 6 |
			       (unsigned int)(word[1] - '0') << 3 |
			       (unsigned int)(word[2] - '0');
			word += 3;
		}
		if (!byte || byte > UINT8_MAX)
			return refuse(refusal, EINVAL, "a path has no byte \\%03o", byte);
		*path++ = (char)byte;
	}
	*path = '\0';
	return 0;
}

int line_path(const char *word, char path[LINE_MAX_LENGTH + 1], struct refusal *refusal)
{
	if (!word)
		return refuse(refusal, EINVAL, "path=FILE is missing");
	if (*word != '/')
		return refuse(refusal, EINVAL,
			      "path=%.200s is not absolute: begin with '/', since the "
			      "broker does not know your working directory",
			      word);
	return line_bytes(word, path, refusal);
}

int line_cgroup(const char *word, char path[LINE_MAX_LENGTH + 1], struct refusal *refusal)
{
	if (*word != '/')
		return refuse(refusal, EINVAL,
			      "cgroup=%.200s does not begin with '/', as a path in "
			      "/proc/PID/cgroup does behind 0::",
			      word);
	return line_bytes(word, path, refusal);
}
