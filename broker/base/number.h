/* SPDX-License-Identifier: MIT */
/*
 * Numbers as people write them: sizes with K M G T or as a count of a type, plain
 * integers in decimal or hex, and scalars of the types that kernels take.
 *
 * All functions take a whole word and refuse trailing characters.
 */
#pragma once

#include "base/def.h"

enum scalar_type {
	SCALAR_I8,
	SCALAR_U8,
	SCALAR_I16,
	SCALAR_U16,
	SCALAR_I32,
	SCALAR_U32,
	SCALAR_I64,
	SCALAR_U64,
	SCALAR_F16,
	SCALAR_BF16,
	SCALAR_F32,
	SCALAR_F64,
	N_SCALAR_TYPES,
};

size_t scalar_size(enum scalar_type type);

/* Returns: 0; -EINVAL; -EOVERFLOW when the number does not fit in 64 bits. */
int number_parse(const char *word, uint64_t *ret_number);

/* A size or an offset: `4096`, `0x1000`, `4K`, `1024xf32`. Returns: as number_parse(). */
int size_parse(const char *word, uint64_t *ret_size);

struct scalar {
	enum scalar_type type;
	uint64_t bits; /* the low scalar_size() bytes, the rest zero */
};

/*
 * `TYPE:VALUE`, as `f32:1.5`, `u8:0xff`, `f16:nan`. Floats are rounded to nearest even.
 *
 * Returns: 0; -EINVAL for an unknown type or a malformed number; -ERANGE when the value
 * does not fit the type.
 */
int scalar_parse(const char *word, struct scalar *ret_scalar);
