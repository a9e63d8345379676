/* SPDX-License-Identifier: MIT */
/*
 * Arithmetic of many words: instructions that set and use the carry flag of each lane.
 * For subtractions the flag is the borrow.
 */
#include "lanes.h"

__extension__ typedef unsigned __int128 wide;

static uint32_t carry_of(const struct warp *warp, uint32_t lane)
{
	return warp->carry >> lane & 1;
}

/* The sum or difference of op->type's width; what doesn't fit is the new carry. */
static void give(struct warp *warp, const struct op *op, uint32_t lane, wide value)
{
	const unsigned int bits = type_bits(op->type);
	const wide kept = bits == 64 ? (uint64_t)value : (uint32_t)value;

	warp_to(warp, op)[lane] = (uint64_t)kept;
	if (!(op->mods.flags & FLAG_CC))
		return;
	warp->carry &= ~(1U << lane);
	warp->carry |= (uint32_t)(value >> bits & 1) << lane;
}

#define CHAIN(name, expression)                                                 \
	static void name(struct warp *warp, const struct op *op, uint32_t mask) \
	{                                                                       \
		EACH_LANE(i, mask)                                              \
		{                                                               \
			const wide a = warp_source(warp, op, 0)[i];             \
			const wide b = warp_source(warp, op, 1)[i];             \
			give(warp, op, i, expression);                          \
		}                                                               \
	}

/* The product is cut first: only the sum carries. */
#define CHAIN_MAD(name, expression)                                             \
	static void name(struct warp *warp, const struct op *op, uint32_t mask) \
	{                                                                       \
		EACH_LANE(i, mask)                                              \
		{                                                               \
			const uint64_t a = warp_source(warp, op, 0)[i];         \
			const uint64_t b = warp_source(warp, op, 1)[i];         \
			const wide c = warp_source(warp, op, 2)[i];             \
			give(warp, op, i, expression);                          \
		}                                                               \
	}

CHAIN(add_cc, a + b)
CHAIN(addc, a + b + carry_of(warp, i))
CHAIN(sub_cc, a - b)
CHAIN(subc, a - b - carry_of(warp, i))

static wide product_low(const struct op *op, uint64_t a, uint64_t b)
{
	return type_bits(op->type) == 64 ? a * b : (uint32_t)(a * b);
}

static wide product_high(const struct op *op, uint64_t a, uint64_t b)
{
	__extension__ typedef __int128 wide_signed;

	switch ((int)op->type) {
	case TYPE_U32:
		return a * b >> 32;
	case TYPE_S32:
		return (uint32_t)((int64_t)(int32_t)a * (int32_t)b >> 32);
	case TYPE_S64:
		return (uint64_t)((wide_signed)(int64_t)a * (int64_t)b >> 64);
	default:
		return (wide)a * b >> 64;
	}
}

CHAIN_MAD(mad_lo_cc, product_low(op, a, b) + c)
CHAIN_MAD(mad_hi_cc, product_high(op, a, b) + c)
CHAIN_MAD(madc_lo, product_low(op, a, b) + c + carry_of(warp, i))
CHAIN_MAD(madc_hi, product_high(op, a, b) + c + carry_of(warp, i))

#define INTEGERS                                                        \
	(TYPE_BIT(TYPE_B32) | TYPE_BIT(TYPE_U32) | TYPE_BIT(TYPE_S32) | \
	 TYPE_BIT(TYPE_B64) | TYPE_BIT(TYPE_U64) | TYPE_BIT(TYPE_S64))
#define SETS GROUP_CC

/* clang-format off */
static const struct instruction instructions[] = {
	{ "add", "daa", SETS, SETS, .handler = add_cc, .types = INTEGERS },
	{ "addc", "daa", SETS, .handler = addc, .types = INTEGERS },
	{ "sub", "daa", SETS, SETS, .handler = sub_cc, .types = INTEGERS },
	{ "subc", "daa", SETS, .handler = subc, .types = INTEGERS },
	{ "mad.lo", "daaa", SETS, SETS, .handler = mad_lo_cc, .types = INTEGERS },
	{ "mad.hi", "daaa", SETS, SETS, .handler = mad_hi_cc, .types = INTEGERS },
	{ "madc.lo", "daaa", SETS, .handler = madc_lo, .types = INTEGERS },
	{ "madc.hi", "daaa", SETS, .handler = madc_hi, .types = INTEGERS },
};
/* clang-format on */

FAMILY(carry);
