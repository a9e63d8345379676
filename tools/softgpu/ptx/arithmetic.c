/* SPDX-License-Identifier: MIT */
/* Integer arithmetic. */
#include "lanes.h"

__extension__ typedef __int128 wide_s;
__extension__ typedef unsigned __int128 wide_u;

/* In unsigned types, where overflow wraps. */
#define WIDTHS(KIND, name, expression)                   \
	KIND(name##_u16, uint16_t, uint16_t, expression) \
	KIND(name##_u32, uint32_t, uint32_t, expression) \
	KIND(name##_u64, uint64_t, uint64_t, expression)
#define SIGNS(KIND, name, expression)                   \
	WIDTHS(KIND, name, expression)                  \
	KIND(name##_s16, int16_t, uint16_t, expression) \
	KIND(name##_s32, int32_t, uint32_t, expression) \
	KIND(name##_s64, int64_t, uint64_t, expression)

WIDTHS(BINARY, add, a + b)
WIDTHS(BINARY, sub, a - b)
BINARY(mul_u16, uint16_t, uint16_t, (uint32_t)a *b)
BINARY(mul_u32, uint32_t, uint32_t, a *b)
BINARY(mul_u64, uint64_t, uint64_t, a *b)
TERNARY(mad_u16, uint16_t, uint16_t, uint16_t, (uint32_t)a *b + c)
TERNARY(mad_u32, uint32_t, uint32_t, uint32_t, a *b + c)
TERNARY(mad_u64, uint64_t, uint64_t, uint64_t, a *b + c)

HANDLERS(add, BY_WIDTH(add));
HANDLERS(sub, BY_WIDTH(sub));
HANDLERS(mul, BY_WIDTH(mul));
HANDLERS(mad, BY_WIDTH(mad));

static int32_t saturate(int64_t value)
{
	return (int32_t)MAX((int64_t)INT32_MIN, MIN((int64_t)INT32_MAX, value));
}

static int32_t positive(int32_t value)
{
	return value < 0 ? 0 : value;
}

BINARY(add_sat_s32, int32_t, uint32_t, saturate((int64_t)a + b))
BINARY(sub_sat_s32, int32_t, uint32_t, saturate((int64_t)a - b))
TERNARY(mad_sat_s32, int32_t, int32_t, uint32_t, saturate(((int64_t)a * b >> 32) + c))

/* Two numbers of 16 bits in a register. */
#define PAIR(low, high) (((uint32_t)(uint16_t)(high) << 16) | (uint16_t)(low))
#define PAIRS(name, T, of)                              \
	BINARY(name, uint32_t, uint32_t,                \
	       PAIR(of((T)(uint16_t)a, (T)(uint16_t)b), \
		    of((T)(uint16_t)(a >> 16), (T)(uint16_t)(b >> 16))))
#define PLUS(a, b) ((uint32_t)(a) + (uint32_t)(b))
PAIRS(add_x2, uint16_t, PLUS)
PAIRS(min_u16x2, uint16_t, MIN)
PAIRS(max_u16x2, uint16_t, MAX)
PAIRS(min_s16x2, int16_t, MIN)
PAIRS(max_s16x2, int16_t, MAX)
HANDLERS(add_pair, [TYPE_U16X2] = add_x2, [TYPE_S16X2] = add_x2);

#define HIGH(name, T, U, W, bits)                      \
	BINARY(mul_hi_##name, T, U, (W)a *b >> (bits)) \
	TERNARY(mad_hi_##name, T, U, U, (U)((W)a * b >> (bits)) + c)
HIGH(u16, uint16_t, uint16_t, uint32_t, 16)
HIGH(s16, int16_t, uint16_t, int32_t, 16)
HIGH(u32, uint32_t, uint32_t, uint64_t, 32)
HIGH(s32, int32_t, uint32_t, int64_t, 32)
HIGH(u64, uint64_t, uint64_t, wide_u, 64)
HIGH(s64, int64_t, uint64_t, wide_s, 64)
HANDLERS(mul_hi, BY_SIGN(mul_hi));
HANDLERS(mad_hi, BY_SIGN(mad_hi));

#define WIDE(name, T, W, U)                       \
	BINARY(mul_wide_##name, T, U, (W)a *(W)b) \
	TERNARY(mad_wide_##name, T, U, U, (U)((W)a * (W)b) + c)
WIDE(u16, uint16_t, uint32_t, uint32_t)
WIDE(s16, int16_t, int32_t, uint32_t)
WIDE(u32, uint32_t, uint64_t, uint64_t)
WIDE(s32, int32_t, int64_t, uint64_t)
#define BY_NARROW(name)                                                            \
	[TYPE_U16] = name##_u16, [TYPE_S16] = name##_s16, [TYPE_U32] = name##_u32, \
	[TYPE_S32] = name##_s32
HANDLERS(mul_wide, BY_NARROW(mul_wide));
HANDLERS(mad_wide, BY_NARROW(mad_wide));

/* 24 bits of each, the product's low 32 or its bits 16 to 47. */
#define BITS_24_U(a) ((uint64_t)((a)&0xffffff))
#define BITS_24_S(a) ((int64_t)((int32_t)((uint32_t)(a) << 8) >> 8))
BINARY(mul24_lo_u32, uint32_t, uint32_t, BITS_24_U(a) * BITS_24_U(b))
BINARY(mul24_lo_s32, uint32_t, uint32_t, BITS_24_S(a) * BITS_24_S(b))
BINARY(mul24_hi_u32, uint32_t, uint32_t, BITS_24_U(a) * BITS_24_U(b) >> 16)
BINARY(mul24_hi_s32, uint32_t, uint32_t, BITS_24_S(a) * BITS_24_S(b) >> 16)
#define MAD24(name, product) \
	TERNARY(name, uint32_t, uint32_t, uint32_t, (uint32_t)(product) + c)
MAD24(mad24_lo_u32, BITS_24_U(a) * BITS_24_U(b))
MAD24(mad24_lo_s32, BITS_24_S(a) * BITS_24_S(b))
MAD24(mad24_hi_u32, BITS_24_U(a) * BITS_24_U(b) >> 16)
MAD24(mad24_hi_s32, BITS_24_S(a) * BITS_24_S(b) >> 16)
#define BY_32(name) [TYPE_U32] = name##_u32, [TYPE_S32] = name##_s32
HANDLERS(mul24_lo, BY_32(mul24_lo));
HANDLERS(mul24_hi, BY_32(mul24_hi));
HANDLERS(mad24_lo, BY_32(mad24_lo));
HANDLERS(mad24_hi, BY_32(mad24_hi));

SIGNS(BINARY, min, MIN(a, b))
SIGNS(BINARY, max, MAX(a, b))
BINARY(min_relu_s32, int32_t, uint32_t, positive(MIN(a, b)))
BINARY(max_relu_s32, int32_t, uint32_t, positive(MAX(a, b)))
HANDLERS(min, BY_SIGN(min), [TYPE_U16X2] = min_u16x2, [TYPE_S16X2] = min_s16x2);
HANDLERS(max, BY_SIGN(max), [TYPE_U16X2] = max_u16x2, [TYPE_S16X2] = max_s16x2);

/* A division by zero gives the same as hardware: all ones, and the dividend. */
#define DIVIDE(a, b, least) \
	((b) == 0 ? -1 : (a) == (least) && (b) == (__typeof__(b))-1 ? (a) : (a) / (b))
#define REMAINDER(a, b) ((b) == 0 ? (a) : (b) == (__typeof__(b))-1 ? 0 : (a) % (b))
#define DIVISION(sign, bits, T, U, least)                   \
	BINARY(div_##sign##bits, T, U, DIVIDE(a, b, least)) \
	BINARY(rem_##sign##bits, T, U, REMAINDER(a, b))
DIVISION(s, 16, int16_t, uint16_t, INT16_MIN)
DIVISION(s, 32, int32_t, uint32_t, INT32_MIN)
DIVISION(s, 64, int64_t, uint64_t, INT64_MIN)
#define DIVISION_U(bits)                                                            \
	BINARY(div_u##bits, uint##bits##_t, uint##bits##_t, b ? a / b : UINT64_MAX) \
	BINARY(rem_u##bits, uint##bits##_t, uint##bits##_t, b ? a % b : a)
DIVISION_U(16)
DIVISION_U(32)
DIVISION_U(64)
HANDLERS(div, BY_SIGN(div));
HANDLERS(rem, BY_SIGN(rem));

#define NEGATED(U, a) ((U)(0 - (U)(a)))
UNARY(abs_s16, int16_t, uint16_t, a < 0 ? NEGATED(uint16_t, a) : a)
UNARY(abs_s32, int32_t, uint32_t, a < 0 ? NEGATED(uint32_t, a) : (uint32_t)a)
UNARY(abs_s64, int64_t, uint64_t, a < 0 ? NEGATED(uint64_t, a) : (uint64_t)a)
UNARY(neg_s16, uint16_t, uint16_t, NEGATED(uint16_t, a))
UNARY(neg_s32, uint32_t, uint32_t, NEGATED(uint32_t, a))
UNARY(neg_s64, uint64_t, uint64_t, NEGATED(uint64_t, a))
#define BY_SIGNED(name) \
	[TYPE_S16] = name##_s16, [TYPE_S32] = name##_s32, [TYPE_S64] = name##_s64
HANDLERS(abs, BY_SIGNED(abs));
HANDLERS(neg, BY_SIGNED(neg));

#define DISTANCE(U, a, b) ((a) < (b) ? (U)(b) - (U)(a) : (U)(a) - (U)(b))
#define SAD(name, T, U)	  TERNARY(sad_##name, T, U, U, c + DISTANCE(U, a, b))
SAD(u16, uint16_t, uint16_t)
SAD(s16, int16_t, uint16_t)
SAD(u32, uint32_t, uint32_t)
SAD(s32, int32_t, uint32_t)
SAD(u64, uint64_t, uint64_t)
SAD(s64, int64_t, uint64_t)
HANDLERS(sad, BY_SIGN(sad));

static int32_t piece(uint32_t value, unsigned int bits, unsigned int n, bool is_signed)
{
	const uint32_t cut = value >> (bits * n);

	if (bits == 8)
		return is_signed ? (int8_t)cut : (uint8_t)cut;
	return is_signed ? (int16_t)cut : (uint16_t)cut;
}

/* Four bytes by four, or two words by the low or high two bytes. */
static uint32_t dot(const struct op *op, uint32_t a, uint32_t b, uint32_t c,
		    unsigned int bits, unsigned int first)
{
	for (unsigned int n = 0; n < 32 / bits; n++)
		c += (uint32_t)piece(a, bits, n, type_is_signed(op->type)) *
		     (uint32_t)piece(b, 8, first + n, type_is_signed(op->from));
	return c;
}

TERNARY(dp4a, uint32_t, uint32_t, uint32_t, dot(op, a, b, c, 8, 0))
TERNARY(dp2a_lo, uint32_t, uint32_t, uint32_t, dot(op, a, b, c, 16, 0))
TERNARY(dp2a_hi, uint32_t, uint32_t, uint32_t, dot(op, a, b, c, 16, 2))

#define WORD_TYPES (TYPE_BIT(TYPE_U32) | TYPE_BIT(TYPE_S32))
#define SIGNED_32  TYPE_BIT(TYPE_S32)

/* clang-format off */
static const struct instruction instructions[] = {
	{ "add", "daa", .handlers = add_handlers },
	{ "add", "daa", .handlers = add_pair_handlers },
	{ "add.sat", "daa", .handler = add_sat_s32, .types = SIGNED_32 },
	{ "sub", "daa", .handlers = sub_handlers },
	{ "sub.sat", "daa", .handler = sub_sat_s32, .types = SIGNED_32 },
	{ "mul.lo", "daa", .handlers = mul_handlers },
	{ "mul.hi", "daa", .handlers = mul_hi_handlers },
	{ "mul.wide", "waa", .handlers = mul_wide_handlers },
	{ "mad.lo", "daaa", .handlers = mad_handlers },
	{ "mad.hi", "daaa", .handlers = mad_hi_handlers },
	{ "mad.hi.sat", "daaa", .handler = mad_sat_s32, .types = SIGNED_32 },
	{ "mad.wide", "waaW", .handlers = mad_wide_handlers },
	{ "mul24.lo", "daa", .handlers = mul24_lo_handlers },
	{ "mul24.hi", "daa", .handlers = mul24_hi_handlers },
	{ "mad24.lo", "daaa", .handlers = mad24_lo_handlers },
	{ "mad24.hi", "daaa", .handlers = mad24_hi_handlers },
	{ "min", "daa", .handlers = min_handlers },
	{ "max", "daa", .handlers = max_handlers },
	{ "min.relu", "daa", .handler = min_relu_s32, .types = SIGNED_32 },
	{ "max.relu", "daa", .handler = max_relu_s32, .types = SIGNED_32 },
	{ "div", "daa", .handlers = div_handlers },
	{ "rem", "daa", .handlers = rem_handlers },
	{ "abs", "da", .handlers = abs_handlers },
	{ "neg", "da", .handlers = neg_handlers },
	{ "sad", "daaa", .handlers = sad_handlers },
	{ "dp4a", "daaa", .handler = dp4a, .types = WORD_TYPES, .from = WORD_TYPES },
	{ "dp2a.lo", "daaa", .handler = dp2a_lo, .types = WORD_TYPES, .from = WORD_TYPES },
	{ "dp2a.hi", "daaa", .handler = dp2a_hi, .types = WORD_TYPES, .from = WORD_TYPES },
};
/* clang-format on */

FAMILY(arithmetic);
