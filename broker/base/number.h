/* SPDX-License-Identifier: MIT */
/*
 * Numbers as people write them: sizes with a unit or as a count of a type, plain integers
 * in decimal or hex, and scalars of the types that kernels take.
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

#define SCALAR_TYPES "i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64"

size_t scalar_size(enum scalar_type type);

/* Whether the word is a number of any kind: `1024`, `-1`, `1.5`, `1e-3`. */
bool word_is_number(const char *word);

/* Returns: 0; -EINVAL; -EOVERFLOW when the number does not fit in 64 bits. */
int number_parse(const char *word, uint64_t *ret_number);

/*
 * A size or an offset: `4096`, `0x1000`, `4K`, `4MiB`, `100MB`, `1024xf32`, `16Mxf32`. K
 * M G T, alone and with iB, are powers of 1024; with B they are powers of 1000.
 *
 * Returns: as number_parse().
 */
int size_parse(const char *word, uint64_t *ret_size);

/*
 * The size in bytes of a word with a fraction and a unit, such as `1.5G`. Returns: 0; -EINVAL when
 * the word is anything else.
 */
int size_parse_fraction(const char *word, uint64_t *ret_size);

/* A size as people type it, exactly: `16K`, `1536M`, `100`. Returns: text. */
const char *size_write(char text[64], uint64_t size);
#define size_typed(size) size_write((char[64]){ 0 }, size)

/*
 * A size as people read it: `16 KiB`, `1.5 GiB`, `100 bytes`; with the bytes where the
 * size is rounded: `79.1 GiB (84923809793 bytes)`. Returns: text.
 */
const char *size_print(char text[64], uint64_t size);
#define size_text(size) size_print((char[64]){ 0 }, size)

/* The type in front of the colon of `f32:1.5`; NULL: no type. */
const char *scalar_type_of(const char *word);

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
