/* SPDX-License-Identifier: MIT */
#include "type.h"

#include <string.h>

const struct type_info types[N_TYPES] = {
	[TYPE_NONE] = { "", KIND_NONE, 0 },
	[TYPE_PRED] = { "pred", KIND_PRED, 1 },
	[TYPE_B8] = { "b8", KIND_BITS, 8 },
	[TYPE_B16] = { "b16", KIND_BITS, 16 },
	[TYPE_B32] = { "b32", KIND_BITS, 32 },
	[TYPE_B64] = { "b64", KIND_BITS, 64 },
	[TYPE_U8] = { "u8", KIND_UNSIGNED, 8 },
	[TYPE_U16] = { "u16", KIND_UNSIGNED, 16 },
	[TYPE_U32] = { "u32", KIND_UNSIGNED, 32 },
	[TYPE_U64] = { "u64", KIND_UNSIGNED, 64 },
	[TYPE_S8] = { "s8", KIND_SIGNED, 8 },
	[TYPE_S16] = { "s16", KIND_SIGNED, 16 },
	[TYPE_S32] = { "s32", KIND_SIGNED, 32 },
	[TYPE_S64] = { "s64", KIND_SIGNED, 64 },
	[TYPE_U16X2] = { "u16x2", KIND_BITS, 32 },
	[TYPE_S16X2] = { "s16x2", KIND_BITS, 32 },
	[TYPE_F16] = { "f16", KIND_FLOAT, 16 },
	[TYPE_F16X2] = { "f16x2", KIND_FLOAT, 32 },
	[TYPE_BF16] = { "bf16", KIND_FLOAT, 16 },
	[TYPE_BF16X2] = { "bf16x2", KIND_FLOAT, 32 },
	[TYPE_TF32] = { "tf32", KIND_FLOAT, 32 },
	[TYPE_F32] = { "f32", KIND_FLOAT, 32 },
	[TYPE_F64] = { "f64", KIND_FLOAT, 64 },
};

enum type type_find(const char *name, size_t length)
{
	for (enum type type = TYPE_PRED; type < N_TYPES; type++)
		if (strlen(types[type].name) == length &&
		    !memcmp(types[type].name, name, length))
			return type;
	return TYPE_NONE;
}
