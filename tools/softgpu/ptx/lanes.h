/* SPDX-License-Identifier: MIT */
/*
 * Handlers made from an expression of a, b and c: a value for each lane of the mask. The
 * value is cut to the unsigned type U of the result.
 */
#pragma once

#include "table.h"
#include "warp.h"

#define UNARY(name, T, U, expression)                                           \
	static void name(struct warp *warp, const struct op *op, uint32_t mask) \
	{                                                                       \
		const uint64_t *source_a = warp_source(warp, op, 0);            \
		uint64_t *to = warp_to(warp, op);                               \
                                                                                \
		EACH_LANE(i, mask)                                              \
		{                                                               \
			const T a = (T)source_a[i];                             \
			to[i] = (U)(expression);                                \
		}                                                               \
	}

#define BINARY(name, T, U, expression)                                          \
	static void name(struct warp *warp, const struct op *op, uint32_t mask) \
	{                                                                       \
		const uint64_t *source_a = warp_source(warp, op, 0);            \
		const uint64_t *source_b = warp_source(warp, op, 1);            \
		uint64_t *to = warp_to(warp, op);                               \
                                                                                \
		EACH_LANE(i, mask)                                              \
		{                                                               \
			const T a = (T)source_a[i], b = (T)source_b[i];         \
			to[i] = (U)(expression);                                \
		}                                                               \
	}

/* The third source may have another type. */
#define TERNARY(name, T, T3, U, expression)                                     \
	static void name(struct warp *warp, const struct op *op, uint32_t mask) \
	{                                                                       \
		const uint64_t *source_a = warp_source(warp, op, 0);            \
		const uint64_t *source_b = warp_source(warp, op, 1);            \
		const uint64_t *source_c = warp_source(warp, op, 2);            \
		uint64_t *to = warp_to(warp, op);                               \
                                                                                \
		EACH_LANE(i, mask)                                              \
		{                                                               \
			const T a = (T)source_a[i], b = (T)source_b[i];         \
			const T3 c = (T3)source_c[i];                           \
			to[i] = (U)(expression);                                \
		}                                                               \
	}

/* One handler for all types of a width, where the sign makes no difference. */
#define BY_WIDTH(name)                                                             \
	[TYPE_B16] = name##_u16, [TYPE_U16] = name##_u16, [TYPE_S16] = name##_u16, \
	[TYPE_B32] = name##_u32, [TYPE_U32] = name##_u32, [TYPE_S32] = name##_u32, \
	[TYPE_B64] = name##_u64, [TYPE_U64] = name##_u64, [TYPE_S64] = name##_u64
#define BY_SIGN(name)                                                              \
	[TYPE_U16] = name##_u16, [TYPE_S16] = name##_s16, [TYPE_U32] = name##_u32, \
	[TYPE_S32] = name##_s32, [TYPE_U64] = name##_u64, [TYPE_S64] = name##_s64

#define HANDLERS(name, ...) \
	static op_handler *const name##_handlers[N_TYPES] = { __VA_ARGS__ }
