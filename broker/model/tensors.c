/* SPDX-License-Identifier: MIT */
/*
 * Check of a safetensors header.
 *
 * A scanner walks over the text and hands the description of each tensor to json-c on
 * its own: the tree of a whole text could take a hundred times the memory of the text.
 * The scanner knows strings and brackets only, and refuses what json-c would accept and
 * other parsers would not: single quotes, control characters in strings.
 *
 * json-c keeps the last of duplicate keys. In an object without objects inside each key
 * has one colon outside strings, so the colons say whether a key was there twice.
 */
#include "model/tensors.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/def.h"
#include "base/refusal.h"
#include "model/tensor.h"

#define TENSOR_TEXT_MAX 65536 /* bytes of the description of one tensor, and of a name \
			       */
#define METADATA_MAX 65536    /* members of __metadata__ */
#define NESTING_MAX  8	      /* json-c counts the values inside, too */

/* ---- a reader of the outermost object ---- */

struct part {
	const char *start;
	size_t length;
	unsigned int n_objects, n_arrays, n_colons; /* outside strings */
};

struct row {
	struct json_object *name, *alias; /* alias NULL: none */
	uint64_t begin, end;
};

struct reader {
	const char *text;
	size_t size, at;
	struct json_tokener *tokener;
	uint64_t allocation_size;
	struct row *rows;
	size_t n_rows, rows_capacity;
	bool has_metadata;
	struct refusal *refusal;
};

static int reader_refuse_end(struct reader *reader)
{
	refuse(reader->refusal, EINVAL,
	       "the JSON ends too early, after %zu bytes: is this all of the text?",
	       reader->size);
	return -ENODATA;
}

static int reader_refuse(struct reader *reader, const char *why)
{
	return refuse(reader->refusal, EINVAL, "byte %zu of the text: %s", reader->at,
		      why);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_blanks(struct reader *reader)
{
	while (reader->at < reader->size && is_blank(reader->text[reader->at]))
		reader->at++;
}

/* Returns: the next character that is not blank; -ENODATA. */
static int peek(struct reader *reader)
{
	skip_blanks(reader);
	return reader->at < reader->size ? (unsigned char)reader->text[reader->at]
					 : reader_refuse_end(reader);
}

/* Goes behind the string that begins here. Returns: 0; -EINVAL, -ENODATA. */
static int skip_string(struct reader *reader)
{
	const char *text = reader->text;

	for (reader->at++; reader->at < reader->size; reader->at++) {
		if (text[reader->at] == '"') {
			reader->at++;
			return 0;
		}
		if ((unsigned char)text[reader->at] < ' ')
			return reader_refuse(reader,
					     "a control character inside a string");
		if (text[reader->at] != '\\')
			continue;
		/* Strings of C end there, so two names could look the same. */
		if (reader->size - reader->at >= 6 &&
		    !memcmp(text + reader->at, "\\u0000", 6))
			return reader_refuse(reader, "\\u0000 is not allowed in strings");
		reader->at++;
	}
	return reader_refuse_end(reader);
}

static int read_key(struct reader *reader, struct part *ret_key)
{
	size_t start;
	int r = peek(reader);

	if (r < 0)
		return r;
	if (r != '"')
		return reader_refuse(reader, "the name of a tensor in \"\" was expected");
	start = reader->at;
	r = skip_string(reader);
	*ret_key = (struct part){ reader->text + start, reader->at - start };
	return r;
}

/* Goes behind the value that begins here, and counts. Returns: 0; -EINVAL, -ENODATA. */
static int read_value(struct reader *reader, struct part *ret_value)
{
	struct part value = { reader->text + reader->at };
	size_t start = reader->at;
	unsigned int depth = 0;
	int r;

	for (; reader->at < reader->size; reader->at++) {
		char c = reader->text[reader->at];

		if (depth == 0 && (c == ',' || c == '}'))
			break;
		if (c == '\'')
			return reader_refuse(reader, "' is not a quote in JSON: use \"");
		if (c == '"') {
			r = skip_string(reader);
			if (r < 0)
				return r;
			reader->at--;
		}
		value.n_objects += c == '{';
		value.n_arrays += c == '[';
		value.n_colons += c == ':';
		depth += c == '{' || c == '[';
		if (depth > NESTING_MAX)
			return reader_refuse(reader, "values are nested too deeply");
		if (c == ']' && depth == 0)
			return reader_refuse(reader, "a ']' without its '['");
		if ((c == '}' || c == ']') && --depth == 0) {
			reader->at++;
			break;
		}
	}
	if (depth || reader->at == reader->size)
		return reader_refuse_end(reader);
	value.length = reader->at - start;
	while (value.length && is_blank(value.start[value.length - 1]))
		value.length--;
	*ret_value = value;
	return 0;
}

/* Goes behind a character. Returns: 0; -EINVAL, -ENODATA. */
static int read_character(struct reader *reader, char wanted, const char *why)
{
	int r = peek(reader);

	if (r < 0)
		return r;
	if (r != wanted)
		return reader_refuse(reader, why);
	reader->at++;
	return 0;
}

/* ---- members of the outermost object ---- */

/* Parses a part. Returns: the value, owned; NULL: it is not JSON. */
static struct json_object *part_parse(struct reader *reader, const struct part *part)
{
	struct json_object *object;

	json_tokener_reset(reader->tokener);
	object = json_tokener_parse_ex(reader->tokener, part->start, (int)part->length);
	if (json_tokener_get_error(reader->tokener) == json_tokener_success &&
	    json_tokener_get_parse_end(reader->tokener) == part->length)
		return object;
	json_object_put(object);
	return NULL;
}

static int part_refuse(const struct reader *reader, const struct part *key,
		       const char *why)
{
	return refuse(reader->refusal, EINVAL, "%.*s: %s",
		      (int)MIN(key->length, (size_t)NAME_SHOWN_BYTES), key->start, why);
}

/* Parses an object without objects in it. Returns: 0; -EINVAL. */
static int object_parse(struct reader *reader, const struct part *key,
			const struct part *value, struct json_object **ret_object)
{
	struct json_object *object;

	if (!value->length || *value->start != '{')
		return part_refuse(reader, key, "its value is not an object {...}");
	if (value->n_objects != 1)
		return part_refuse(reader, key, "its value has an object inside");
	object = part_parse(reader, value);
	if (!object)
		return part_refuse(
			reader, key,
			json_tokener_error_desc(json_tokener_get_error(reader->tokener)));
	if ((unsigned int)json_object_object_length(object) != value->n_colons) {
		json_object_put(object);
		return part_refuse(reader, key, "a key is there twice");
	}
	*ret_object = object;
	return 0;
}

static int check_metadata(struct reader *reader, const struct part *key,
			  const struct part *value)
{
	struct json_object *object;
	struct json_object_iterator at, end;
	int r;

	if (reader->has_metadata)
		return part_refuse(reader, key, "it is there twice");
	reader->has_metadata = true;
	if (value->n_arrays || value->n_colons > METADATA_MAX)
		return part_refuse(reader, key,
				   value->n_arrays ? "its values are strings"
						   : "it has more than 65536 members");
	r = object_parse(reader, key, value, &object);
	if (r < 0)
		return r;
	at = json_object_iter_begin(object);
	end = json_object_iter_end(object);
	for (; r == 0 && !json_object_iter_equal(&at, &end); json_object_iter_next(&at)) {
		if (!json_object_is_type(json_object_iter_peek_value(&at),
					 json_type_string))
			r = part_refuse(reader, key, "its values are strings");
	}
	json_object_put(object);
	return r;
}

/* Makes room for one more. Returns: 0; -EINVAL, -ENOMEM. */
static int rows_reserve(struct reader *reader)
{
	size_t capacity = MAX(reader->rows_capacity * 2, (size_t)64);
	struct row *rows;

	if (reader->n_rows == TENSORS_MAX)
		return refuse(reader->refusal, EINVAL, "more than %u tensors",
			      TENSORS_MAX);
	if (reader->n_rows < reader->rows_capacity)
		return 0;
	rows = reallocarray(reader->rows, capacity, sizeof(*rows));
	if (!rows)
		return refuse(reader->refusal, ENOMEM, "no memory in the broker");
	reader->rows = rows;
	reader->rows_capacity = capacity;
	return 0;
}

/* Takes a row for the tensor. Returns: 0; -EINVAL, -ENOMEM. */
static int read_tensor(struct reader *reader, const struct part *key,
		       const struct part *value)
{
	struct json_object *name, *object = NULL;
	struct tensor tensor = { 0 };
	int r = rows_reserve(reader);

	if (r < 0)
		return r;
	if (key->length > TENSOR_TEXT_MAX || value->length > TENSOR_TEXT_MAX)
		return part_refuse(reader, key,
				   "it takes more than the 64 KiB for one tensor");
	name = part_parse(reader, key);
	if (!json_object_is_type(name, json_type_string)) {
		json_object_put(name);
		return part_refuse(reader, key, "the name is not a string of UTF-8");
	}
	tensor.name = json_object_get_string(name);
	r = object_parse(reader, key, value, &object);
	if (r == 0)
		r = tensor_check(&tensor, object, reader->allocation_size,
				 reader->refusal);
	if (r == 0)
		reader->rows[reader->n_rows++] = (struct row){
			json_object_get(name),
			json_object_get(tensor.alias),
			tensor.begin,
			tensor.end,
		};
	json_object_put(object);
	json_object_put(name);
	return r;
}

static int read_member(struct reader *reader)
{
	static const char metadata[] = "\"__metadata__\"";
	struct part key, value;
	int r = read_key(reader, &key);

	if (r == 0)
		r = read_character(reader, ':', "a ':' was expected");
	if (r == 0)
		r = peek(reader);
	if (r >= 0)
		r = read_value(reader, &value);
	if (r < 0)
		return r;
	if (key.length == strlen(metadata) && !memcmp(key.start, metadata, key.length))
		return check_metadata(reader, &key, &value);
	return read_tensor(reader, &key, &value);
}

static int read_members(struct reader *reader)
{
	int r = read_character(reader, '{', "a safetensors header begins with '{'");

	if (r == 0)
		r = peek(reader);
	if (r < 0)
		return r;
	if (r == '}') {
		reader->at++;
	} else {
		do {
			r = read_member(reader);
			if (r == 0)
				r = peek(reader);
			if (r < 0)
				return r;
			if (r != ',' && r != '}')
				return reader_refuse(reader,
						     "a ',' or a '}' was expected");
			reader->at++;
		} while (r == ',');
	}
	skip_blanks(reader);
	return reader->at == reader->size
		       ? 0
		       : reader_refuse(reader, "there is more behind the last '}'");
}

/* ---- what tensors say of each other ---- */

static const char *row_name(const struct row *row)
{
	return json_object_get_string(row->name);
}

static int row_compare(const void *a, const void *b)
{
	return strcmp(row_name(a), row_name(b));
}

static int refuse_alias(const struct reader *reader, const struct row *row,
			const char *why)
{
	return refuse(reader->refusal, EINVAL, "tensor '%.*s': its alias '%.*s' %s",
		      NAME_SHOWN_BYTES, row_name(row), NAME_SHOWN_BYTES,
		      json_object_get_string(row->alias), why);
}

/* Names are there once; an alias lies in another tensor, which is none itself. */
static int check_names(const struct reader *reader)
{
	const struct row *rows = reader->rows, *of;

	if (!reader->n_rows)
		return 0;
	qsort(reader->rows, reader->n_rows, sizeof(*rows), row_compare);
	for (size_t i = 0; i + 1 < reader->n_rows; i++) {
		if (!row_compare(&rows[i], &rows[i + 1]))
			return refuse(reader->refusal, EINVAL,
				      "tensor '%.*s' is there twice", NAME_SHOWN_BYTES,
				      row_name(&rows[i]));
	}
	for (const struct row *row = rows; row < rows + reader->n_rows; row++) {
		if (!row->alias)
			continue;
		of = bsearch(&(struct row){ .name = row->alias }, rows, reader->n_rows,
			     sizeof(*rows), row_compare);
		if (!of)
			return refuse_alias(reader, row, "is not there");
		if (of->alias)
			return refuse_alias(reader, row,
					    of == row ? "is itself" : "is an alias, too");
		if (row->begin < of->begin || row->end > of->end)
			return refuse_alias(reader, row, "lies elsewhere");
	}
	return 0;
}

int tensors_check(const char *text, size_t size, uint64_t allocation_size,
		  struct refusal *refusal)
{
	struct reader reader = {
		.text = text,
		.size = size,
		.allocation_size = allocation_size,
		.refusal = refusal,
	};
	int r;

	if (size > TENSORS_TEXT_MAX)
		return refuse(refusal, EINVAL, "tensors has at most 64 MiB");
	reader.tokener = json_tokener_new_ex(NESTING_MAX);
	if (!reader.tokener)
		return refuse(refusal, ENOMEM, "no memory in the broker");
	json_tokener_set_flags(reader.tokener,
			       JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	r = read_members(&reader);
	if (r == 0)
		r = check_names(&reader);
	for (size_t i = 0; i < reader.n_rows; i++) {
		json_object_put(reader.rows[i].name);
		json_object_put(reader.rows[i].alias);
	}
	free(reader.rows);
	json_tokener_free(reader.tokener);
	return r;
}
