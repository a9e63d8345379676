/* SPDX-License-Identifier: MIT */
/* Comparisons of all types, ordered and unordered: setp and set. */
#include "number.h"
#include "table.h"
#include "warp.h"

#include <math.h>

#define COMPARE(T)                                          \
	static bool compare_##T(enum compare how, T a, T b) \
	{                                                   \
		switch (how) {                              \
		case COMPARE_EQ:                            \
			return a == b;                      \
		case COMPARE_NE:                            \
			return a != b;                      \
		case COMPARE_LT:                            \
			return a < b;                       \
		case COMPARE_LE:                            \
			return a <= b;                      \
		case COMPARE_GT:                            \
			return a > b;                       \
		default:                                    \
			return a >= b;                      \
		}                                           \
	}
COMPARE(uint64_t)
COMPARE(int64_t)

static bool compare_float(enum compare how, double a, double b)
{
	const bool unordered = isnan(a) || isnan(b);

	switch (how) {
	case COMPARE_EQ:
	case COMPARE_EQU:
		return a == b || (unordered && how == COMPARE_EQU);
	case COMPARE_NE:
	case COMPARE_NEU:
		return unordered ? how == COMPARE_NEU : a != b;
	case COMPARE_LT:
	case COMPARE_LTU:
		return a < b || (unordered && how == COMPARE_LTU);
	case COMPARE_LE:
	case COMPARE_LEU:
		return a <= b || (unordered && how == COMPARE_LEU);
	case COMPARE_GT:
	case COMPARE_GTU:
		return a > b || (unordered && how == COMPARE_GTU);
	case COMPARE_GE:
	case COMPARE_GEU:
		return a >= b || (unordered && how == COMPARE_GEU);
	case COMPARE_NUM:
		return !unordered;
	default:
		return unordered;
	}
}

static int64_t sign_extend(uint64_t value, unsigned int bits)
{
	return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

static double widen(const struct op *op, uint64_t bits)
{
	const bool ftz = op->mods.flags & FLAG_FTZ;

	switch (op->type) {
	case TYPE_F16:
	case TYPE_F16X2:
		return half_value((uint16_t)bits, ftz);
	case TYPE_BF16:
	case TYPE_BF16X2:
		return bfloat_value((uint16_t)bits);
	case TYPE_F32:
		return (double)single_value((uint32_t)bits, ftz);
	default:
		return double_value(bits);
	}
}

static bool compare(const struct op *op, uint64_t a, uint64_t b)
{
	const unsigned int bits = type_bits(op->type);

	if (type_is_float(op->type))
		return compare_float(op->mods.compare, widen(op, a), widen(op, b));
	if (type_is_signed(op->type))
		return compare_int64_t(op->mods.compare, sign_extend(a, bits),
				       sign_extend(b, bits));
	return compare_uint64_t(op->mods.compare, a, b);
}

static bool combine(const struct op *op, bool result, bool with)
{
	switch (op->mods.mode) {
	case MODE_AND:
		return result && with;
	case MODE_OR:
		return result || with;
	case MODE_XOR:
		return result != with;
	default:
		return result;
	}
}

/* p gets the comparison, q its opposite, each combined with c. */
static void setp(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t *a = warp_source(warp, op, 0), *b = warp_source(warp, op, 1);
	const uint64_t *with = op->mods.mode ? warp_register(warp, op->from_pred) : NULL;
	const bool two = op->to_pred.index >= 0;

	EACH_LANE(i, mask)
	{
		const bool result = compare(op, a[i], b[i]);
		const bool c = with && with[i];

		warp_to(warp, op)[i] = combine(op, result, c);
		if (two)
			warp_register(warp, op->to_pred)[i] = combine(op, !result, c);
	}
}

/* Each of two numbers in a register has its own result. */
static void setp_pair(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t *a = warp_source(warp, op, 0), *b = warp_source(warp, op, 1);
	const uint64_t *with = op->mods.mode ? warp_register(warp, op->from_pred) : NULL;

	EACH_LANE(i, mask)
	{
		const bool low = compare(op, a[i] & 0xffff, b[i] & 0xffff);
		const bool high = compare(op, a[i] >> 16, b[i] >> 16);
		const bool c = with && with[i];

		warp_to(warp, op)[i] = combine(op, low, c);
		if (op->to_pred.index >= 0)
			warp_register(warp, op->to_pred)[i] = combine(op, high, c);
	}
}

/* The value of set for true, in the type of the result. */
static uint64_t truth_of(enum type type)
{
	switch (type) {
	case TYPE_F32:
		return 0x3f800000;
	case TYPE_F16:
		return 0x3c00;
	case TYPE_BF16:
		return 0x3f80;
	case TYPE_U16:
	case TYPE_S16:
		return 0xffff;
	default:
		return UINT32_MAX;
	}
}

/* The types stand the other way round: the result's first. */
static void set(struct warp *warp, const struct op *op, uint32_t mask)
{
	struct op as = *op;

	as.type = op->from;
	EACH_LANE(i, mask)
	{
		const bool result = compare(&as, warp_source(warp, op, 0)[i],
					    warp_source(warp, op, 1)[i]);
		const bool c = op->mods.mode && warp_register(warp, op->from_pred)[i];

		warp_to(warp, op)[i] = combine(op, result, c) ? truth_of(op->type) : 0;
	}
}

/* Two numbers in a register give two results. True is 1.0, or all ones for integers. */
static void set_pair(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t one = op->type == TYPE_F16X2    ? 0x3c00
			     : op->type == TYPE_BF16X2 ? 0x3f80
						       : 0xffff;
	struct op as = *op;

	as.type = op->from;
	EACH_LANE(i, mask)
	{
		const uint64_t a = warp_source(warp, op, 0)[i];
		const uint64_t b = warp_source(warp, op, 1)[i];
		const bool c = op->mods.mode && warp_register(warp, op->from_pred)[i];
		const bool low = compare(&as, a & 0xffff, b & 0xffff);
		const bool high = compare(&as, a >> 16, b >> 16);

		warp_to(warp, op)[i] = (combine(op, low, c) ? one : 0) |
				       (combine(op, high, c) ? one << 16 : 0);
	}
}

#define INTEGERS                                                        \
	(TYPE_BIT(TYPE_B16) | TYPE_BIT(TYPE_U16) | TYPE_BIT(TYPE_S16) | \
	 TYPE_BIT(TYPE_B32) | TYPE_BIT(TYPE_U32) | TYPE_BIT(TYPE_S32) | \
	 TYPE_BIT(TYPE_B64) | TYPE_BIT(TYPE_U64) | TYPE_BIT(TYPE_S64))
#define HALVES (TYPE_BIT(TYPE_F16) | TYPE_BIT(TYPE_BF16))
#define PAIRS  (TYPE_BIT(TYPE_F16X2) | TYPE_BIT(TYPE_BF16X2))
#define FLOATS (TYPE_BIT(TYPE_F32) | TYPE_BIT(TYPE_F64) | HALVES)
#define RESULTS                                                         \
	(TYPE_BIT(TYPE_U16) | TYPE_BIT(TYPE_S16) | TYPE_BIT(TYPE_U32) | \
	 TYPE_BIT(TYPE_S32) | TYPE_BIT(TYPE_F32) | HALVES)
#define PAIR_RESULTS (PAIRS | TYPE_BIT(TYPE_U32) | TYPE_BIT(TYPE_S32))
#define BARE	     (GROUP_COMPARE | GROUP_FTZ)
#define LOGIC	     (GROUP_COMPARE | GROUP_LOGIC)

/* clang-format off */
static const struct instruction instructions[] = {
	{ "setp", "paa", BARE, GROUP_COMPARE, .handler = setp, .types = INTEGERS | FLOATS },
	{ "setp", "paaq", BARE | LOGIC, LOGIC, .handler = setp, .types = INTEGERS | FLOATS },
	{ "setp", "paa", BARE, GROUP_COMPARE, .handler = setp_pair, .types = PAIRS },
	{ "setp", "paaq", BARE | LOGIC, LOGIC, .handler = setp_pair, .types = PAIRS },
	{ "set", "dff", BARE, GROUP_COMPARE, .handler = set,
	  .types = RESULTS, .from = INTEGERS | FLOATS },
	{ "set", "dffq", BARE | LOGIC, LOGIC, .handler = set,
	  .types = RESULTS, .from = INTEGERS | FLOATS },
	{ "set", "dff", BARE, GROUP_COMPARE, .handler = set_pair,
	  .types = PAIR_RESULTS, .from = PAIRS },
	{ "set", "dffq", BARE | LOGIC, LOGIC, .handler = set_pair,
	  .types = PAIR_RESULTS, .from = PAIRS },
};
/* clang-format on */

FAMILY(compare);
