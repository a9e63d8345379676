/* SPDX-License-Identifier: MIT */
/* Logic, shifts, and fields of bits. */
#include "lanes.h"

#define WIDTHS(KIND, name, expression)                   \
	KIND(name##_u16, uint16_t, uint16_t, expression) \
	KIND(name##_u32, uint32_t, uint32_t, expression) \
	KIND(name##_u64, uint64_t, uint64_t, expression)

#define BITS(name) \
	[TYPE_B16] = name##_u16, [TYPE_B32] = name##_u32, [TYPE_B64] = name##_u64

WIDTHS(BINARY, and, a &b)
WIDTHS(BINARY, or, a | b)
WIDTHS(BINARY, xor, a ^ b)
WIDTHS(UNARY, not, ~a)
WIDTHS(UNARY, cnot, a == 0)
UNARY(not_pred, uint32_t, uint64_t, !a)
HANDLERS(and, BITS(and), [TYPE_PRED] = and_u32);
HANDLERS(or, BITS(or), [TYPE_PRED] = or_u32);
HANDLERS(xor, BITS(xor), [TYPE_PRED] = xor_u32);
HANDLERS(not, BITS(not ), [TYPE_PRED] = not_pred);
HANDLERS(cnot, BITS(cnot));

/* Shifts by the width or more give the result of shifting bit by bit. */
#define SHIFT(name, T, U, bits, expression, beyond)                             \
	static void name(struct warp *warp, const struct op *op, uint32_t mask) \
	{                                                                       \
		const uint64_t *source_a = warp_source(warp, op, 0);            \
		const uint64_t *source_b = warp_source(warp, op, 1);            \
		uint64_t *to = warp_to(warp, op);                               \
                                                                                \
		EACH_LANE(i, mask)                                              \
		{                                                               \
			const T a = (T)source_a[i];                             \
			const uint32_t b = (uint32_t)source_b[i];               \
			to[i] = (U)(b < (bits) ? (expression) : (beyond));      \
		}                                                               \
	}
SHIFT(shl_u16, uint16_t, uint16_t, 16, (uint32_t)a << b, 0)
SHIFT(shl_u32, uint32_t, uint32_t, 32, a << b, 0)
SHIFT(shl_u64, uint64_t, uint64_t, 64, a << b, 0)
SHIFT(shr_u16, uint16_t, uint16_t, 16, a >> b, 0)
SHIFT(shr_u32, uint32_t, uint32_t, 32, a >> b, 0)
SHIFT(shr_u64, uint64_t, uint64_t, 64, a >> b, 0)
SHIFT(shr_s16, int16_t, uint16_t, 16, a >> b, a < 0 ? -1 : 0)
SHIFT(shr_s32, int32_t, uint32_t, 32, a >> b, a < 0 ? -1 : 0)
SHIFT(shr_s64, int64_t, uint64_t, 64, a >> b, a < 0 ? -1 : 0)
HANDLERS(shl, BY_WIDTH(shl));
HANDLERS(shr, BITS(shr), BY_SIGN(shr));

/* c has the range of bits; a is the low word and b the high word. */
static uint32_t funnel(const struct op *op, uint32_t low, uint32_t high, uint32_t c)
{
	const uint64_t both = (uint64_t)high << 32 | low;
	const uint32_t n = op->mods.flags & FLAG_CLAMP ? MIN(c, 32U) : c & 31;

	if (op->mods.mode == MODE_L)
		return n == 32 ? low : (uint32_t)(both << n >> 32);
	return (uint32_t)(both >> n);
}
TERNARY(shf, uint32_t, uint32_t, uint32_t, funnel(op, a, b, c))

UNARY(popc_u32, uint32_t, uint32_t, __builtin_popcount(a))
UNARY(popc_u64, uint64_t, uint32_t, __builtin_popcountll(a))
UNARY(clz_u32, uint32_t, uint32_t, a ? __builtin_clz(a) : 32)
UNARY(clz_u64, uint64_t, uint32_t, a ? __builtin_clzll(a) : 64)
HANDLERS(popc, [TYPE_B32] = popc_u32, [TYPE_B64] = popc_u64);
HANDLERS(clz, [TYPE_B32] = clz_u32, [TYPE_B64] = clz_u64);

static uint64_t reverse(uint64_t value, unsigned int bits)
{
	uint64_t reversed = 0;

	for (unsigned int i = 0; i < bits; i++)
		reversed |= (value >> i & 1) << (bits - 1 - i);
	return reversed;
}
UNARY(brev_u32, uint32_t, uint32_t, reverse(a, 32))
UNARY(brev_u64, uint64_t, uint64_t, reverse(a, 64))
HANDLERS(brev, [TYPE_B32] = brev_u32, [TYPE_B64] = brev_u64);

/* The highest bit that differs from the sign; .shiftamt: the distance from the top. */
static uint32_t find(const struct op *op, uint64_t value)
{
	const unsigned int bits = type_bits(op->type);
	const bool negative = type_is_signed(op->type) && value >> (bits - 1) & 1;
	uint32_t at;

	if (negative)
		value = ~value & (bits == 64 ? UINT64_MAX : UINT32_MAX);
	if (!value)
		return UINT32_MAX;
	at = 63 - (uint32_t)__builtin_clzll(value);
	return op->mods.flags & FLAG_SHIFTAMT ? bits - 1 - at : at;
}
UNARY(bfind, uint64_t, uint32_t, find(op, a))

static uint64_t extract(const struct op *op, uint64_t a, uint32_t b, uint32_t c)
{
	const unsigned int bits = type_bits(op->type);
	const unsigned int from = b & 0xff, length = c & 0xff;
	const unsigned int top = MIN(from + length - 1, bits - 1);
	const bool sign = type_is_signed(op->type) && length && a >> top & 1;
	uint64_t value = 0;

	for (unsigned int i = 0; i < bits; i++) {
		const bool inside = i < length && from + i < bits;

		value |= (uint64_t)(inside ? a >> (from + i) & 1 : sign) << i;
	}
	return value;
}

static void bfe(struct warp *warp, const struct op *op, uint32_t mask)
{
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	to[i] = extract(op, warp_source(warp, op, 0)[i],
			(uint32_t)warp_source(warp, op, 1)[i],
			(uint32_t)warp_source(warp, op, 2)[i]);
}

static uint64_t ones(unsigned int n)
{
	return n >= 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1;
}

static uint64_t insert(unsigned int bits, uint64_t a, uint64_t b, uint32_t c, uint32_t d)
{
	const unsigned int from = c & 0xff, length = d & 0xff;
	uint64_t field;

	if (from >= bits)
		return b;
	field = ones(MIN(length, bits - from)) << from;
	return (b & ~field) | (a << from & field);
}

static void bfi(struct warp *warp, const struct op *op, uint32_t mask)
{
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	to[i] = insert(type_bits(op->type), warp_source(warp, op, 0)[i],
		       warp_source(warp, op, 1)[i], (uint32_t)warp_source(warp, op, 2)[i],
		       (uint32_t)warp_source(warp, op, 3)[i]);
}

static uint32_t field_mask(const struct op *op, uint32_t a, uint32_t b)
{
	const bool clamp = op->mods.flags & FLAG_CLAMP;
	const uint32_t from = clamp ? a : a & 31, length = clamp ? b : b & 31;

	return from > 31 ? 0 : (uint32_t)(ones(MIN(length, 32U)) << from);
}
BINARY(bmsk, uint32_t, uint32_t, field_mask(op, a, b))

/* The low b bits of a, extended by zeros or their sign. */
static uint32_t extend(const struct op *op, uint32_t a, uint32_t b)
{
	const uint32_t n = op->mods.flags & FLAG_CLAMP ? MIN(b, 32U) : b & 31;
	const uint32_t low = (uint32_t)(a & ones(n));

	if (!n || n == 32 || !type_is_signed(op->type) || !(low >> (n - 1) & 1))
		return low;
	return low | ~(uint32_t)ones(n);
}
BINARY(szext, uint32_t, uint32_t, extend(op, a, b))

/* Each bit of the result is a bit of the table d, which those of a, b and c choose. */
static uint32_t look_up(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
	uint32_t result = 0;

	for (unsigned int i = 0; i < 8; i++)
		if (table >> i & 1)
			result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
	return result;
}

static void lop3(struct warp *warp, const struct op *op, uint32_t mask)
{
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	to[i] = look_up((uint32_t)warp_source(warp, op, 0)[i],
			(uint32_t)warp_source(warp, op, 1)[i],
			(uint32_t)warp_source(warp, op, 2)[i],
			(uint32_t)warp_source(warp, op, 3)[i]);
}

/* The bytes that a mode of prmt chooses, four bits each, by the low bits of c. */
static const uint16_t permutations[][4] = {
	[MODE_F4E] = { 0x3210, 0x4321, 0x5432, 0x6543 },
	[MODE_B4E] = { 0x5670, 0x6701, 0x7012, 0x0123 },
	[MODE_RC8] = { 0x0000, 0x1111, 0x2222, 0x3333 },
	[MODE_ECL] = { 0x3210, 0x3211, 0x3222, 0x3333 },
	[MODE_ECR] = { 0x0000, 0x1110, 0x2210, 0x3210 },
	[MODE_RC16] = { 0x1010, 0x3232, 0x1010, 0x3232 },
};

static uint32_t permute(const struct op *op, uint32_t a, uint32_t b, uint32_t c)
{
	const bool chosen = op->mods.mode != MODE_NONE;
	const uint32_t selectors = chosen ? permutations[op->mods.mode][c & 3] : c;
	const uint64_t bytes = (uint64_t)b << 32 | a;
	uint32_t result = 0;

	for (unsigned int i = 0; i < 4; i++) {
		const uint32_t selector = selectors >> (4 * i) & 0xf;
		uint32_t byte = (uint32_t)(bytes >> (8 * (selector & 7))) & 0xff;

		if (selector & 8)
			byte = byte & 0x80 ? 0xff : 0;
		result |= byte << (8 * i);
	}
	return result;
}
TERNARY(prmt, uint32_t, uint32_t, uint32_t, permute(op, a, b, c))

#define B32 TYPE_BIT(TYPE_B32)
#define FIELDS                                                          \
	(TYPE_BIT(TYPE_U32) | TYPE_BIT(TYPE_S32) | TYPE_BIT(TYPE_U64) | \
	 TYPE_BIT(TYPE_S64))
#define WORDS (TYPE_BIT(TYPE_U32) | TYPE_BIT(TYPE_S32))

/* clang-format off */
static const struct instruction instructions[] = {
	{ "and", "daa", .handlers = and_handlers },
	{ "or", "daa", .handlers = or_handlers },
	{ "xor", "daa", .handlers = xor_handlers },
	{ "not", "da", .handlers = not_handlers },
	{ "cnot", "da", .handlers = cnot_handlers },
	{ "shl", "dau", .handlers = shl_handlers },
	{ "shr", "dau", .handlers = shr_handlers },
	{ "shf", "daau", GROUP_SIDE | GROUP_WRAP, GROUP_SIDE | GROUP_WRAP,
	  .handler = shf, .types = B32 },
	{ "popc", "xa", .handlers = popc_handlers },
	{ "clz", "xa", .handlers = clz_handlers },
	{ "brev", "da", .handlers = brev_handlers },
	{ "bfind", "xa", GROUP_WRAP, .handler = bfind, .types = FIELDS },
	{ "bfe", "dauu", .handler = bfe, .types = FIELDS },
	{ "bfi", "daauu", .handler = bfi, .types = B32 | TYPE_BIT(TYPE_B64) },
	{ "bmsk", "duu", GROUP_WRAP, GROUP_WRAP, .handler = bmsk, .types = B32 },
	{ "szext", "dau", GROUP_WRAP, GROUP_WRAP, .handler = szext, .types = WORDS },
	{ "lop3", "daaau", .handler = lop3, .types = B32 },
	{ "prmt", "daau", GROUP_PERMUTE, .handler = prmt, .types = B32 },
};
/* clang-format on */

FAMILY(bits);
