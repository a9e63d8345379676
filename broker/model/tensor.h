/* SPDX-License-Identifier: MIT */
/* The description of one tensor in a safetensors header. */
#pragma once

#include <stdint.h>

struct json_object;
struct refusal;

#define NAME_SHOWN_BYTES 100 /* of a tensor's name, in a sentence */

/* A description as it is read; the objects are borrowed, NULL: not given. */
struct tensor {
	const char *name;
	struct json_object *dtype, *shape, *offsets, *strides, *kind, *alias;
	unsigned int bits;   /* of an element */
	uint64_t n;	     /* elements from the first to the last in memory */
	uint64_t begin, end; /* bytes of the allocation */
};

/*
 * Reads the description of the tensor with that name, all but the target of its alias.
 * Returns: 0; -EINVAL.
 */
int tensor_check(struct tensor *tensor, struct json_object *object,
		 uint64_t allocation_size, struct refusal *refusal);
