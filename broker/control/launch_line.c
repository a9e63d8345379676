/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "control/launch_line.h"

#include <gpumem/wire.h>

#include "base/number.h"
#include "base/refusal.h"
#include "control/line.h"
#include "kernels/launch_spec.h"
#include "model/folder.h"
#include "model/range.h"

#define BLOCK_OF_ELEMENTS 256

/* ---- dimensions ---- */

/* `X[,Y[,Z]]`; missing values are 1. */
static int parse_dimensions(const char *word, const char *what, uint32_t dimensions[3],
			    struct refusal *refusal)
{
	_cleanup_free_ char *copy = strdup(word);
	char *rest = copy;

	if (!copy)
		return refuse(refusal, ENOMEM, "the broker has no memory for the line");
	dimensions[0] = dimensions[1] = dimensions[2] = 1;
	for (int i = 0; rest; i++) {
		const char *part = strsep(&rest, ",");
		uint64_t number;

		if (i == 3 || number_parse(part, &number) < 0 || number > UINT32_MAX)
			return refuse(refusal, EINVAL, "%s=%.64s is not X[,Y[,Z]]", what,
				      word);
		if (number == 0)
			return refuse(refusal, EINVAL, "%s=%.64s has a dimension of zero",
				      what, word);
		dimensions[i] = (uint32_t)number;
	}
	return 0;
}

/* One thread for each element. */
static int parse_elements(struct launch_spec *launch, const struct line *line,
			  struct refusal *refusal)
{
	const char *word = line_value(line, "elements");
	uint64_t elements, blocks;
	int r;

	if (line_value(line, "grid"))
		return refuse(refusal, EINVAL,
			      "elements=%.64s and grid=%.64s can't both be given", word,
			      line_value(line, "grid"));
	r = line_number(word, "elements", &elements, refusal);
	if (r < 0)
		return r;
	if (elements == 0)
		return refuse(refusal, EINVAL, "elements=%.64s: 1 is the least", word);
	if (launch->block[1] != 1 || launch->block[2] != 1)
		return refuse(refusal, EINVAL,
			      "elements= needs a block of one dimension, not block=%.64s",
			      line_value(line, "block"));
	blocks = (elements - 1) / launch->block[0] + 1;
	if (blocks > INT32_MAX)
		return refuse(
			refusal, EINVAL,
			"elements=%.64s needs %llu blocks of %u: a grid has at most %d",
			word, (unsigned long long)blocks, launch->block[0], INT32_MAX);
	launch->grid[0] = (uint32_t)blocks;
	launch->grid[1] = launch->grid[2] = 1;
	return 0;
}

static int parse_grid(struct launch_spec *launch, const struct line *line,
		      struct refusal *refusal)
{
	int r = 0;

	launch->block[0] = BLOCK_OF_ELEMENTS;
	launch->block[1] = launch->block[2] = 1;
	if (line_value(line, "block"))
		r = parse_dimensions(line_value(line, "block"), "block", launch->block,
				     refusal);
	if (r < 0)
		return r;
	if (line_value(line, "cluster"))
		r = parse_dimensions(line_value(line, "cluster"), "cluster",
				     launch->cluster, refusal);
	if (r < 0)
		return r;
	if (line_value(line, "elements"))
		return parse_elements(launch, line, refusal);
	if (!line_value(line, "grid") || !line_value(line, "block"))
		return refuse(refusal, EINVAL,
			      "a launch needs grid= and block=, or elements=");
	return parse_dimensions(line_value(line, "grid"), "grid", launch->grid, refusal);
}

/* ---- arguments ---- */

/* Reserves size bytes among the argument bytes. NULL: too many. */
static uint8_t *arg_room(struct launch_spec *launch, struct launch_arg *arg,
			 uint32_t size)
{
	uint32_t end = (launch->n_bytes + size + 7) / 8 * 8;

	if (size > WIRE_ARGS_BYTES || end > WIRE_ARGS_BYTES)
		return NULL;
	arg->size = size;
	arg->place = launch->n_bytes;
	launch->n_bytes = end;
	return launch->bytes + arg->place;
}

static int refuse_room(const struct launch_arg *arg, struct refusal *refusal)
{
	return refuse(refusal, E2BIG,
		      "the arguments up to '%.64s' have more than %d bytes", arg->word,
		      WIRE_ARGS_BYTES);
}

/* `hex:BYTES`, in memory order. */
static int arg_parse_hex(struct launch_spec *launch, struct launch_arg *arg,
			 struct refusal *refusal)
{
	const char *digits = arg->word + strlen("hex:");
	size_t length = strlen(digits);
	uint8_t *bytes;

	if (length == 0 || length % 2 ||
	    strspn(digits, "0123456789abcdefABCDEF") != length)
		return refuse(
			refusal, EINVAL,
			"'%.64s' is not hex:BYTES, two digits a byte, such as hex:00ff",
			arg->word);
	bytes = arg_room(launch, arg, (uint32_t)(length / 2));
	if (!bytes)
		return refuse_room(arg, refusal);
	for (size_t i = 0; i < length; i += 2) {
		char byte[3] = { digits[i], digits[i + 1] };

		bytes[i / 2] = (uint8_t)strtoul(byte, NULL, 16);
	}
	return 0;
}

static int arg_parse_scalar(struct launch_spec *launch, struct launch_arg *arg,
			    struct refusal *refusal)
{
	struct scalar scalar;
	uint8_t *bytes;
	int r;

	r = line_scalar(arg->word, &scalar, refusal);
	if (r < 0)
		return r;
	bytes = arg_room(launch, arg, (uint32_t)scalar_size(scalar.type));
	if (!bytes)
		return refuse_room(arg, refusal);
	memcpy(bytes, &scalar.bits, arg->size); /* little-endian, as on the GPU */
	return 0;
}

static int arg_parse_allocation(struct launch_spec *launch, struct launch_arg *arg,
				struct refusal *refusal)
{
	const char *place = arg->word;
	struct full_name name;
	struct range range;
	int r;

	arg->kind = ARG_ALLOCATION;
	arg->reads = arg->writes = true;
	if (strncmp(place, "in:", 3) == 0) {
		arg->writes = false;
		place += 3;
	} else if (strncmp(place, "out:", 4) == 0) {
		arg->reads = false;
		place += 4;
	}
	r = line_place(place, &name, &range, refusal);
	if (r < 0 && word_is_number(place))
		return refuse(refusal, EINVAL,
			      "'%.64s' is not an allocation; for a number write %s:%.64s",
			      place, strpbrk(place, ".eE") ? "f32" : "i32", place);
	if (r < 0)
		return r;
	arg->offset = range.offset;
	arg->name = strdup(name.text);
	if (!arg->name)
		return refuse(refusal, ENOMEM, "no memory in the broker");
	return arg_room(launch, arg, sizeof(uint64_t)) ? 0 : refuse_room(arg, refusal);
}

static int arg_parse(struct launch_spec *launch, struct launch_arg *arg, const char *word,
		     struct refusal *refusal)
{
	arg->word = word;
	arg->kind = ARG_VALUE;
	if (strncmp(word, "hex:", 4) == 0)
		return arg_parse_hex(launch, arg, refusal);
	if (strchr(word, ':') && strncmp(word, "in:", 3) != 0 &&
	    strncmp(word, "out:", 4) != 0)
		return arg_parse_scalar(launch, arg, refusal);
	return arg_parse_allocation(launch, arg, refusal);
}

static int parse_args(struct launch_spec *launch, const struct line *line,
		      struct refusal *refusal)
{
	uint8_t *bytes;
	int r = 0;

	launch->args = calloc(line->n_args + 1, sizeof(*launch->args));
	launch->bytes = calloc(1, WIRE_ARGS_BYTES);
	if (!launch->args || !launch->bytes)
		return refuse(refusal, ENOMEM, "the broker has no memory for the line");
	for (; r == 0 && launch->n_args < line->n_args; launch->n_args++)
		r = arg_parse(launch, &launch->args[launch->n_args],
			      line->args[launch->n_args], refusal);
	/* A queued launch keeps only the bytes of its arguments. */
	bytes = realloc(launch->bytes, MAX(launch->n_bytes, 1u));
	if (bytes)
		launch->bytes = bytes;
	return r;
}

/* ---- the line ---- */

static int parse_cooperative(const char *word, bool *ret_cooperative,
			     struct refusal *refusal)
{
	*ret_cooperative = word && strcmp(word, "1") == 0;
	if (word && !*ret_cooperative && strcmp(word, "0") != 0)
		return refuse(refusal, EINVAL, "cooperative=%.64s is neither 0 nor 1",
			      word);
	return 0;
}

static int parse_shared(const char *word, uint32_t *ret_shared, struct refusal *refusal)
{
	uint64_t shared = 0;
	int r = 0;

	if (word)
		r = line_size(word, "shared", &shared, refusal);
	if (r < 0)
		return r;
	if (shared > INT32_MAX)
		return refuse(refusal, EINVAL, "shared=%.64s is more than any device has",
			      word);
	*ret_shared = (uint32_t)shared;
	return 0;
}

int launch_line_parse(struct launch_spec *launch, const struct line *line,
		      struct refusal *refusal)
{
	const char *timeout = line_value(line, "timeout");
	int r;

	*launch = (struct launch_spec){ .stream = line_value(line, "stream") };
	r = parse_grid(launch, line, refusal);
	if (r == 0)
		r = parse_shared(line_value(line, "shared"), &launch->shared, refusal);
	if (r == 0)
		r = parse_cooperative(line_value(line, "cooperative"),
				      &launch->cooperative, refusal);
	if (r == 0 && timeout)
		r = line_seconds(timeout, "timeout", 0.001, &launch->timeout_ms, refusal);
	if (r == 0)
		r = line_wait(line_value(line, "wait"), &launch->wait, refusal);
	if (r == 0)
		r = parse_args(launch, line, refusal);
	return r;
}
