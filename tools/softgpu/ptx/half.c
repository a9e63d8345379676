/* SPDX-License-Identifier: MIT */
/*
 * Arithmetic of f16 and bf16, alone and in pairs.
 *
 * All of it is done in double, where products of two are exact. A sum may need more bits
 * than a double has: the sum is rounded to odd there, and so the second rounding is
 * right.
 */
#include "number.h"
#include "table.h"
#include "warp.h"

static bool is_bfloat(const struct op *op)
{
	return op->type == TYPE_BF16 || op->type == TYPE_BF16X2;
}

static double value_of(const struct op *op, uint64_t bits)
{
	return is_bfloat(op) ? bfloat_value((uint16_t)bits)
			     : half_value((uint16_t)bits, op->mods.flags & FLAG_FTZ);
}

static uint16_t bits_of(const struct op *op, double value)
{
	return is_bfloat(op) ? bfloat_bits(value, op->mods.flags)
			     : half_bits(value, op->mods.flags);
}

/* a + b; the last bit of an inexact sum is set. */
static double add_odd(double a, double b)
{
	const double sum = a + b;
	const double virtual = sum - a;
	const double error = (a - (sum - virtual)) + (b - virtual);
	uint64_t bits = double_bits(sum);

	if (!isfinite(sum) || error == 0 || bits & 1)
		return sum;
	bits += (error > 0) == (sum > 0) ? 1 : UINT64_MAX;
	return double_value(bits);
}

static double fma_odd(double a, double b, double c)
{
	return add_odd(a * b, c);
}

static double least(const struct op *op, double a, double b, bool wants_less)
{
	bool less;

	if (isnan(a) || isnan(b)) {
		if (op->mods.flags & FLAG_NAN || (isnan(a) && isnan(b)))
			return (double)NAN;
		return isnan(a) ? b : a;
	}
	less = a < b || (a == b && signbit(a) && !signbit(b));
	return less == wants_less ? a : b;
}

static double choose(const struct op *op, double a, double b, bool wants_less)
{
	double chosen;

	if (!(op->mods.flags & FLAG_XORSIGN))
		return least(op, a, b, wants_less);
	chosen = least(op, fabs(a), fabs(b), wants_less);
	return !!signbit(a) != !!signbit(b) ? -chosen : chosen;
}

/*
 * A handler for a single value and for a pair in a register, from a function of values.
 */
#define EACH_HALF(name, expression)                                             \
	static uint16_t name##_one(const struct op *op, uint64_t x, uint64_t y, \
				   uint64_t z)                                  \
	{                                                                       \
		const double a = value_of(op, x), b = value_of(op, y),          \
			     c = value_of(op, z);                               \
                                                                                \
		(void)b;                                                        \
		(void)c;                                                        \
		return bits_of(op, expression);                                 \
	}                                                                       \
	HALVES(name)

#define HALVES(name)                                                            \
	static void name(struct warp *warp, const struct op *op, uint32_t mask) \
	{                                                                       \
		halves_run(warp, op, mask, name##_one);                         \
	}

static void halves_run(struct warp *warp, const struct op *op, uint32_t mask,
		       uint16_t (*one)(const struct op *op, uint64_t a, uint64_t b,
				       uint64_t c))
{
	const bool two = type_bits(op->type) == 32;
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	{
		uint64_t from[3] = { 0 }, result;

		for (int n = 0; n < op->n_sources; n++)
			from[n] = warp_source(warp, op, n)[i];
		result = one(op, from[0], from[1], from[2]);
		if (two)
			result |= (uint64_t)one(op, from[0] >> 16, from[1] >> 16,
						from[2] >> 16)
				  << 16;
		to[i] = result;
	}
}

EACH_HALF(add, add_odd(a, b))
EACH_HALF(sub, add_odd(a, -b))
EACH_HALF(mul, a *b)
EACH_HALF(fma_half, fma_odd(a, b, c))
EACH_HALF(min, choose(op, a, b, true))
EACH_HALF(max, choose(op, a, b, false))
EACH_HALF(ex2, exp2(a))
EACH_HALF(tanh_approx, tanh(a))

static uint16_t flushed(const struct op *op, uint64_t bits)
{
	if (op->mods.flags & FLAG_FTZ && !(bits & 0x7c00))
		return (uint16_t)(bits & 0x8000);
	return (uint16_t)bits;
}

static bool is_nan(const struct op *op, uint64_t bits)
{
	return (bits & 0x7fff) > (is_bfloat(op) ? 0x7f80 : 0x7c00);
}

static uint16_t neg_one(const struct op *op, uint64_t a, uint64_t b, uint64_t c)
{
	(void)b;
	(void)c;
	return is_nan(op, a) ? HALF_NAN : flushed(op, a) ^ 0x8000;
}

static uint16_t abs_half_one(const struct op *op, uint64_t a, uint64_t b, uint64_t c)
{
	(void)b;
	(void)c;
	return is_nan(op, a) ? HALF_NAN : flushed(op, a) & 0x7fff;
}

HALVES(neg)
HALVES(abs_half)

#define F16    (TYPE_BIT(TYPE_F16) | TYPE_BIT(TYPE_F16X2))
#define BF16   (TYPE_BIT(TYPE_BF16) | TYPE_BIT(TYPE_BF16X2))
#define FULL   (GROUP_ROUND | GROUP_FTZ | GROUP_SAT)
#define CHOICE (GROUP_FTZ | GROUP_NAN)

/* clang-format off */
static const struct instruction instructions[] = {
	{ "add", "daa", FULL, .handler = add, .types = F16 },
	{ "sub", "daa", FULL, .handler = sub, .types = F16 },
	{ "mul", "daa", FULL, .handler = mul, .types = F16 },
	{ "fma", "daaa", FULL, GROUP_ROUND, .handler = fma_half, .types = F16 },
	{ "fma", "daaa", GROUP_ROUND | GROUP_FTZ | GROUP_RELU, GROUP_ROUND | GROUP_RELU,
	  .handler = fma_half, .types = F16 },
	{ "add", "daa", GROUP_ROUND, .handler = add, .types = BF16 },
	{ "sub", "daa", GROUP_ROUND, .handler = sub, .types = BF16 },
	{ "mul", "daa", GROUP_ROUND, .handler = mul, .types = BF16 },
	{ "fma", "daaa", GROUP_ROUND | GROUP_RELU, GROUP_ROUND, .handler = fma_half, .types = BF16 },
	{ "min", "daa", CHOICE, .handler = min, .types = F16 },
	{ "max", "daa", CHOICE, .handler = max, .types = F16 },
	{ "min", "daa", GROUP_NAN, .handler = min, .types = BF16 },
	{ "max", "daa", GROUP_NAN, .handler = max, .types = BF16 },
	{ "neg", "da", GROUP_FTZ, .handler = neg, .types = F16 },
	{ "abs", "da", GROUP_FTZ, .handler = abs_half, .types = F16 },
	{ "neg", "da", .handler = neg, .types = BF16 },
	{ "abs", "da", .handler = abs_half, .types = BF16 },
	{ "ex2.approx", "da", .handler = ex2, .types = F16 },
	{ "ex2.approx.ftz", "da", .handler = ex2, .types = BF16 },
	{ "tanh.approx", "da", .handler = tanh_approx, .types = F16 | BF16 },
};
/* clang-format on */

FAMILY(half);
