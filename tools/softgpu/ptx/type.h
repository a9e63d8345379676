/* SPDX-License-Identifier: MIT */
/* The types of PTX. */
#pragma once

#include "base/def.h"

enum type {
	TYPE_NONE,
	TYPE_PRED,
	TYPE_B8,
	TYPE_B16,
	TYPE_B32,
	TYPE_B64,
	TYPE_U8,
	TYPE_U16,
	TYPE_U32,
	TYPE_U64,
	TYPE_S8,
	TYPE_S16,
	TYPE_S32,
	TYPE_S64,
	TYPE_U16X2,
	TYPE_S16X2,
	TYPE_F16,
	TYPE_F16X2,
	TYPE_BF16,
	TYPE_BF16X2,
	TYPE_TF32,
	TYPE_F32,
	TYPE_F64,
	N_TYPES,
};

enum type_kind {
	KIND_NONE,
	KIND_PRED,
	KIND_BITS,
	KIND_UNSIGNED,
	KIND_SIGNED,
	KIND_FLOAT,
};

struct type_info {
	const char *name;
	enum type_kind kind;
	unsigned char bits;
};

extern const struct type_info types[N_TYPES];

/* Returns: TYPE_NONE where the name is no type's. */
enum type type_find(const char *name, size_t length);

static inline unsigned int type_bits(enum type type)
{
	return types[type].bits;
}

static inline unsigned int type_size(enum type type)
{
	return types[type].bits / 8;
}

static inline bool type_is_float(enum type type)
{
	return types[type].kind == KIND_FLOAT;
}

static inline bool type_is_signed(enum type type)
{
	return types[type].kind == KIND_SIGNED;
}
