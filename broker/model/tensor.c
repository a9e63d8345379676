/* SPDX-License-Identifier: MIT */
#include "model/tensor.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <string.h>

#include "base/def.h"
#include "base/refusal.h"
#include "base/text.h"

static const struct {
	const char *name;
	unsigned int bits;
} dtypes[] = {
	{ "BOOL", 8 },	  { "U8", 8 },	    { "I8", 8 },      { "F8_E4M3", 8 },
	{ "F8_E5M2", 8 }, { "F8_E8M0", 8 }, { "I16", 16 },    { "U16", 16 },
	{ "F16", 16 },	  { "BF16", 16 },   { "I32", 32 },    { "U32", 32 },
	{ "F32", 32 },	  { "I64", 64 },    { "U64", 64 },    { "F64", 64 },
	{ "C64", 64 },	  { "F4", 4 },	    { "F6_E2M3", 6 }, { "F6_E3M2", 6 },
};

/* As many dimensions as any array library has. numpy overruns its stack with more. */
#define RANK_MAX 64

/* Refuses with the tensor's name, and what JSON says (NULL: nothing). */
static int tensor_refuse(struct refusal *refusal, const struct tensor *tensor,
			 const char *why, struct json_object *said)
{
	const char *json = said ? json_object_to_json_string(said) : NULL;

	return refuse(refusal, EINVAL, "tensor '%.*s': %s%s%.80s", NAME_SHOWN_BYTES,
		      tensor->name, why, json ? ", not " : "", json ?: "");
}

/* A whole number from 0. Returns: was it one? */
static bool read_number(struct json_object *object, uint64_t *ret_number)
{
	int64_t number = json_object_get_int64(object);

	/* json-c gives INT64_MAX for all that is larger. */
	if (!json_object_is_type(object, json_type_int) || number < 0 ||
	    number == INT64_MAX)
		return false;
	*ret_number = (uint64_t)number;
	return true;
}

static int check_dtype(struct tensor *tensor, struct refusal *refusal)
{
	const char *name = json_object_get_string(tensor->dtype);
	_cleanup_text_ struct text why = TEXT_INIT;

	text_printf(&why, "dtype is one of");
	for (size_t i = 0; i < ARRAY_SIZE(dtypes); i++) {
		if (json_object_is_type(tensor->dtype, json_type_string) &&
		    !strcmp(dtypes[i].name, name)) {
			tensor->bits = dtypes[i].bits;
			return 0;
		}
		text_printf(&why, " %s", dtypes[i].name);
	}
	return tensor_refuse(refusal, tensor, text_string(&why), tensor->dtype);
}

/* The number of elements: the product of the shape. */
static int check_shape(struct tensor *tensor, struct refusal *refusal)
{
	bool empty = false, overflows = false;
	uint64_t dimension;

	if (!json_object_is_type(tensor->shape, json_type_array))
		return tensor_refuse(refusal, tensor, "shape is a list of whole numbers",
				     tensor->shape);
	if (json_object_array_length(tensor->shape) > RANK_MAX)
		return tensor_refuse(refusal, tensor,
				     "shape has more than 64 numbers, which no array has",
				     NULL);
	tensor->n = 1;
	for (size_t i = 0; i < json_object_array_length(tensor->shape); i++) {
		if (!read_number(json_object_array_get_idx(tensor->shape, i), &dimension))
			return tensor_refuse(refusal, tensor,
					     "shape is a list of whole numbers from 0",
					     tensor->shape);
		empty |= dimension == 0;
		overflows |= !empty &&
			     __builtin_mul_overflow(tensor->n, dimension, &tensor->n);
	}
	if (empty)
		tensor->n = 0;
	else if (overflows)
		return tensor_refuse(refusal, tensor,
				     "shape has more elements than any memory has bytes",
				     NULL);
	return 0;
}

/* With strides, in elements, the elements lie apart, or several at one place. */
static int check_strides(struct tensor *tensor, struct refusal *refusal)
{
	uint64_t dimension = 0, stride, step, last = 0;
	size_t rank = json_object_array_length(tensor->shape);

	if (!json_object_is_type(tensor->strides, json_type_array) ||
	    json_object_array_length(tensor->strides) != rank)
		return tensor_refuse(refusal, tensor,
				     "strides has a whole number for each of shape",
				     tensor->strides);
	for (size_t i = 0; i < rank; i++) {
		if (!read_number(json_object_array_get_idx(tensor->strides, i), &stride))
			return tensor_refuse(refusal, tensor,
					     "strides are whole numbers from 0",
					     tensor->strides);
		(void)read_number(json_object_array_get_idx(tensor->shape, i),
				  &dimension);
		if (dimension && (__builtin_mul_overflow(dimension - 1, stride, &step) ||
				  __builtin_add_overflow(last, step, &last)))
			return tensor_refuse(refusal, tensor,
					     "strides lead out of any memory", NULL);
	}
	if (tensor->n && __builtin_add_overflow(last, (uint64_t)1, &tensor->n))
		return tensor_refuse(refusal, tensor, "strides lead out of any memory",
				     NULL);
	return 0;
}

static int check_offsets(struct tensor *tensor, uint64_t allocation_size,
			 struct refusal *refusal)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct json_object *offsets = tensor->offsets;

	if (!json_object_is_type(offsets, json_type_array) ||
	    json_object_array_length(offsets) != 2 ||
	    !read_number(json_object_array_get_idx(offsets, 0), &tensor->begin) ||
	    !read_number(json_object_array_get_idx(offsets, 1), &tensor->end) ||
	    tensor->begin > tensor->end)
		return tensor_refuse(refusal, tensor,
				     "data_offsets is [BEGIN,END] in bytes, BEGIN <= END",
				     offsets);
	if (tensor->end <= allocation_size)
		return 0;
	text_printf(&why, "data_offsets end at %llu, the allocation at %llu",
		    (unsigned long long)tensor->end, (unsigned long long)allocation_size);
	return tensor_refuse(refusal, tensor, text_string(&why), NULL);
}

static int check_length(const struct tensor *tensor, struct refusal *refusal)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	uint64_t length = tensor->end - tensor->begin, bits;

	if (!__builtin_mul_overflow(tensor->n, (uint64_t)tensor->bits, &bits) &&
	    bits % 8 == 0 && bits / 8 == length)
		return 0;
	text_printf(
		&why, "%llu elements of %u bits are not the %llu bytes of data_offsets",
		(unsigned long long)tensor->n, tensor->bits, (unsigned long long)length);
	return tensor_refuse(refusal, tensor, text_string(&why), NULL);
}

static int check_kind(const struct tensor *tensor, struct refusal *refusal)
{
	const char *kind = json_object_get_string(tensor->kind);

	if (json_object_is_type(tensor->kind, json_type_string) &&
	    (!strcmp(kind, "parameter") || !strcmp(kind, "buffer")))
		return 0;
	return tensor_refuse(refusal, tensor, "kind is parameter or buffer",
			     tensor->kind);
}

/* Sorts the keys of a description. Returns: 0; -EINVAL. */
static int take_keys(struct tensor *tensor, struct json_object *object,
		     struct refusal *refusal)
{
	struct {
		const char *key;
		struct json_object **place;
		bool needed;
	} const keys[] = {
		{ "dtype", &tensor->dtype, true },
		{ "shape", &tensor->shape, true },
		{ "data_offsets", &tensor->offsets, true },
		{ "strides", &tensor->strides },
		{ "kind", &tensor->kind },
		{ "alias", &tensor->alias },
	};
	size_t n_known = 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (json_object_object_get_ex(object, keys[i].key, keys[i].place))
			n_known++;
		else if (keys[i].needed)
			return refuse(refusal, EINVAL, "tensor '%.*s' has no %s",
				      NAME_SHOWN_BYTES, tensor->name, keys[i].key);
		/* json-c has NULL for null. */
		if (!*keys[i].place &&
		    json_object_object_get_ex(object, keys[i].key, NULL))
			return refuse(refusal, EINVAL, "tensor '%.*s': %s is null",
				      NAME_SHOWN_BYTES, tensor->name, keys[i].key);
	}
	if ((size_t)json_object_object_length(object) == n_known)
		return 0;
	return tensor_refuse(refusal, tensor,
			     "only dtype, shape, data_offsets, strides, kind and alias "
			     "are known",
			     object);
}

int tensor_check(struct tensor *tensor, struct json_object *object,
		 uint64_t allocation_size, struct refusal *refusal)
{
	int r = take_keys(tensor, object, refusal);

	if (r == 0)
		r = check_dtype(tensor, refusal);
	if (r == 0)
		r = check_shape(tensor, refusal);
	if (r == 0 && tensor->strides)
		r = check_strides(tensor, refusal);
	if (r == 0)
		r = check_offsets(tensor, allocation_size, refusal);
	if (r == 0)
		r = check_length(tensor, refusal);
	if (r == 0 && tensor->kind)
		r = check_kind(tensor, refusal);
	if (r == 0 && tensor->alias &&
	    !json_object_is_type(tensor->alias, json_type_string))
		r = tensor_refuse(refusal, tensor, "alias is the name of another tensor",
				  tensor->alias);
	return r;
}
