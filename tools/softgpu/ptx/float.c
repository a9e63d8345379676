/* SPDX-License-Identifier: MIT */
/*
 * Arithmetic of f32 and f64, rounded as IEEE 754 says and as is asked.
 *
 * The host computes it. A rounding mode is set around the lanes; the operands come from
 * memory and the results go there, so the compiler can't move the computing across.
 */
#include "number.h"
#include "table.h"
#include "warp.h"

#include <float.h>

#define SINGLE(n) single_value((uint32_t)warp_source(warp, op, n)[i], ftz)
#define DOUBLE(n) double_value(warp_source(warp, op, n)[i])

/* Of NaNs among the operands the first stays, made quiet. */
static uint64_t result_double(struct warp *warp, const struct op *op, uint32_t lane,
			      double value)
{
	const uint64_t quiet = (uint64_t)1 << 51;

	if (!isnan(value))
		return double_bits(value);
	for (int n = 0; n < op->n_sources; n++) {
		const uint64_t bits = warp_source(warp, op, n)[lane];

		if (isnan(double_value(bits)))
			return bits | quiet;
	}
	return 0xfff8000000000000;
}

/*
 * .ftz flushes a result to 0 that is less than the least normal number when rounded to 24
 * bits with any exponent. The processor rounds such a result to fewer bits, and so
 * perhaps up to the least normal number; then the result is computed again with all bits,
 * SCALED.
 */
#define SCALE	  0x1p24f
#define SCALED(n) (SINGLE(n) * scale)

/* Not inlined: the results of one must be in memory before the mode changes back. */
#define EACH_ROUNDED(name, expression)                                                   \
	static inline float name##_of(struct warp *warp, const struct op *op,            \
				      uint32_t i, bool ftz, float scale)                 \
	{                                                                                \
		return expression;                                                       \
	}                                                                                \
	__attribute__((noinline)) static void name##_lanes(                              \
		struct warp *warp, const struct op *op, uint32_t mask)                   \
	{                                                                                \
		const uint32_t flags = op->mods.flags;                                   \
		const bool ftz = flags & FLAG_FTZ;                                       \
		uint64_t *to = warp_to(warp, op);                                        \
                                                                                         \
		EACH_LANE(i, mask)                                                       \
		{                                                                        \
			float value = name##_of(warp, op, i, ftz, 1);                    \
                                                                                         \
			if (ftz && fabsf(value) == FLT_MIN &&                            \
			    fabsf(name##_of(warp, op, i, ftz, SCALE)) < FLT_MIN * SCALE) \
				value = copysignf(0, value);                             \
			to[i] = single_bits(value, flags);                               \
		}                                                                        \
	}                                                                                \
	ROUNDED(name)

#define EACH_SINGLE(name, expression)                                  \
	__attribute__((noinline)) static void name##_lanes(            \
		struct warp *warp, const struct op *op, uint32_t mask) \
	{                                                              \
		const uint32_t flags = op->mods.flags;                 \
		const bool ftz = flags & FLAG_FTZ;                     \
		uint64_t *to = warp_to(warp, op);                      \
                                                                       \
		(void)ftz;                                             \
		EACH_LANE(i, mask)                                     \
		to[i] = single_bits(expression, flags);                \
	}                                                              \
	ROUNDED(name)

#define EACH_DOUBLE(name, expression)                                  \
	__attribute__((noinline)) static void name##_lanes(            \
		struct warp *warp, const struct op *op, uint32_t mask) \
	{                                                              \
		uint64_t *to = warp_to(warp, op);                      \
                                                                       \
		EACH_LANE(i, mask)                                     \
		to[i] = result_double(warp, op, i, expression);        \
	}                                                              \
	ROUNDED(name)

#define ROUNDED(name)                                                           \
	static void name(struct warp *warp, const struct op *op, uint32_t mask) \
	{                                                                       \
		const int before = rounding_enter(op->mods.rounding);           \
                                                                                \
		name##_lanes(warp, op, mask);                                   \
		rounding_leave(before);                                         \
	}

EACH_ROUNDED(add_f32, SCALED(0) + SCALED(1))
EACH_ROUNDED(sub_f32, SCALED(0) - SCALED(1))
EACH_ROUNDED(mul_f32, SCALED(0) * SINGLE(1))
EACH_ROUNDED(fma_f32, fmaf(SCALED(0), SINGLE(1), SCALED(2)))
EACH_ROUNDED(div_f32, SCALED(0) / SINGLE(1))
EACH_ROUNDED(rcp_f32, scale / SINGLE(0))
EACH_SINGLE(sqrt_f32, sqrtf(SINGLE(0)))
EACH_DOUBLE(add_f64, DOUBLE(0) + DOUBLE(1))
EACH_DOUBLE(sub_f64, DOUBLE(0) - DOUBLE(1))
EACH_DOUBLE(mul_f64, DOUBLE(0) * DOUBLE(1))
EACH_DOUBLE(fma_f64, fma(DOUBLE(0), DOUBLE(1), DOUBLE(2)))
EACH_DOUBLE(div_f64, DOUBLE(0) / DOUBLE(1))
EACH_DOUBLE(rcp_f64, 1.0 / DOUBLE(0))
EACH_DOUBLE(sqrt_f64, sqrt(DOUBLE(0)))

#define BOTH(name)     [TYPE_F32] = name##_f32, [TYPE_F64] = name##_f64
#define HANDLERS(name) static op_handler *const name##_handlers[N_TYPES] = { BOTH(name) }

/* -0 is less than +0; a NaN loses against a number, or wins with .NaN. */
static bool is_less(double a, double b)
{
	return a < b || (a == b && signbit(a) && !signbit(b));
}

static double choose(const struct op *op, double a, double b, bool least)
{
	if (isnan(a) || isnan(b)) {
		if (op->mods.flags & FLAG_NAN || (isnan(a) && isnan(b)))
			return (double)NAN;
		return isnan(a) ? b : a;
	}
	return is_less(a, b) == least ? a : b;
}

static double choose_single(const struct op *op, double a, double b, bool least)
{
	const bool negative = !!signbit(a) != !!signbit(b);
	double chosen;

	if (!(op->mods.flags & FLAG_XORSIGN))
		return choose(op, a, b, least);
	chosen = choose(op, fabs(a), fabs(b), least);
	return negative ? -chosen : chosen;
}

EACH_SINGLE(min_f32, (float)choose_single(op, (double)SINGLE(0), (double)SINGLE(1), true))
EACH_SINGLE(max_f32,
	    (float)choose_single(op, (double)SINGLE(0), (double)SINGLE(1), false))
EACH_DOUBLE(min_f64, choose(op, DOUBLE(0), DOUBLE(1), true))
EACH_DOUBLE(max_f64, choose(op, DOUBLE(0), DOUBLE(1), false))

#define ON_BITS(name, expression)                                               \
	static void name(struct warp *warp, const struct op *op, uint32_t mask) \
	{                                                                       \
		const uint64_t *source = warp_source(warp, op, 0);              \
		uint64_t *to = warp_to(warp, op);                               \
                                                                                \
		EACH_LANE(i, mask)                                              \
		{                                                               \
			const uint64_t a = source[i];                           \
			to[i] = (expression);                                   \
		}                                                               \
	}

#define SIGN_64 ((uint64_t)1 << 63)

static uint32_t flush(const struct op *op, uint32_t bits)
{
	if (op->mods.flags & FLAG_FTZ && !(bits & 0x7f800000))
		return bits & SIGN_32;
	return bits;
}

/*
 * A NaN gives the canonical NaN of f32; in f64 the sign is kept, as in all f64
 * arithmetic.
 */
static bool is_nan_32(uint64_t bits)
{
	return (bits & (SIGN_32 - 1)) > 0x7f800000;
}

static uint64_t negated_64(uint64_t bits)
{
	return isnan(double_value(bits)) ? bits | (uint64_t)1 << 51 : bits ^ SIGN_64;
}

ON_BITS(abs_f32, is_nan_32(a) ? SINGLE_NAN : flush(op, (uint32_t)a) & ~SIGN_32)
ON_BITS(abs_f64, a & ~SIGN_64)
ON_BITS(neg_f32, is_nan_32(a) ? SINGLE_NAN : flush(op, (uint32_t)a) ^ SIGN_32)
ON_BITS(neg_f64, negated_64(a))

static void copysign_f32(struct warp *warp, const struct op *op, uint32_t mask)
{
	EACH_LANE(i, mask)
	warp_to(warp, op)[i] = (warp_source(warp, op, 0)[i] & SIGN_32) |
			       (warp_source(warp, op, 1)[i] & (SIGN_32 - 1));
}

static void copysign_f64(struct warp *warp, const struct op *op, uint32_t mask)
{
	EACH_LANE(i, mask)
	warp_to(warp, op)[i] = (warp_source(warp, op, 0)[i] & SIGN_64) |
			       (warp_source(warp, op, 1)[i] & (SIGN_64 - 1));
}
HANDLERS(copysign);

static bool is_of_class(enum mode mode, double value, bool subnormal)
{
	switch (mode) {
	case MODE_FINITE:
		return isfinite(value);
	case MODE_INFINITE:
		return isinf(value);
	case MODE_NUMBER:
		return !isnan(value);
	case MODE_NOTANUMBER:
		return isnan(value);
	case MODE_NORMAL:
		return isfinite(value) && !subnormal; /* 0 is normal, too */
	default:
		return subnormal;
	}
}

static void testp_f32(struct warp *warp, const struct op *op, uint32_t mask)
{
	EACH_LANE(i, mask)
	{
		const float value =
			single_value((uint32_t)warp_source(warp, op, 0)[i], false);

		warp_to(warp, op)[i] = is_of_class(op->mods.mode, (double)value,
						   fpclassify(value) == FP_SUBNORMAL);
	}
}

static void testp_f64(struct warp *warp, const struct op *op, uint32_t mask)
{
	EACH_LANE(i, mask)
	{
		const double value = DOUBLE(0);

		warp_to(warp, op)[i] = is_of_class(op->mods.mode, value,
						   fpclassify(value) == FP_SUBNORMAL);
	}
}
HANDLERS(testp);

#define F32	TYPE_BIT(TYPE_F32)
#define F64	TYPE_BIT(TYPE_F64)
#define FLUSHED (GROUP_ROUND | GROUP_FTZ)
#define SINGLES (GROUP_ROUND | GROUP_FTZ | GROUP_SAT)
#define CHOICE	(GROUP_FTZ | GROUP_NAN)

/* clang-format off */
static const struct instruction instructions[] = {
	{ "add", "daa", SINGLES, .handler = add_f32, .types = F32 },
	{ "add", "daa", GROUP_ROUND, .handler = add_f64, .types = F64 },
	{ "sub", "daa", SINGLES, .handler = sub_f32, .types = F32 },
	{ "sub", "daa", GROUP_ROUND, .handler = sub_f64, .types = F64 },
	{ "mul", "daa", SINGLES, .handler = mul_f32, .types = F32 },
	{ "mul", "daa", GROUP_ROUND, .handler = mul_f64, .types = F64 },
	{ "fma", "daaa", SINGLES, GROUP_ROUND, .handler = fma_f32, .types = F32 },
	{ "fma", "daaa", GROUP_ROUND, GROUP_ROUND, .handler = fma_f64, .types = F64 },
	{ "mad", "daaa", SINGLES, GROUP_ROUND, .handler = fma_f32, .types = F32 },
	{ "mad", "daaa", GROUP_ROUND, GROUP_ROUND, .handler = fma_f64, .types = F64 },
	{ "div", "daa", FLUSHED, GROUP_ROUND, .handler = div_f32, .types = F32 },
	{ "div", "daa", GROUP_ROUND, GROUP_ROUND, .handler = div_f64, .types = F64 },
	{ "rcp", "da", FLUSHED, GROUP_ROUND, .handler = rcp_f32, .types = F32 },
	{ "rcp", "da", GROUP_ROUND, GROUP_ROUND, .handler = rcp_f64, .types = F64 },
	{ "sqrt", "da", FLUSHED, GROUP_ROUND, .handler = sqrt_f32, .types = F32 },
	{ "sqrt", "da", GROUP_ROUND, GROUP_ROUND, .handler = sqrt_f64, .types = F64 },
	{ "min", "daa", CHOICE, .handler = min_f32, .types = F32 },
	{ "min", "daa", .handler = min_f64, .types = F64 },
	{ "max", "daa", CHOICE, .handler = max_f32, .types = F32 },
	{ "max", "daa", .handler = max_f64, .types = F64 },
	{ "abs", "da", GROUP_FTZ, .handler = abs_f32, .types = F32 },
	{ "abs", "da", .handler = abs_f64, .types = F64 },
	{ "neg", "da", GROUP_FTZ, .handler = neg_f32, .types = F32 },
	{ "neg", "da", .handler = neg_f64, .types = F64 },
	{ "copysign", "daa", .handlers = copysign_handlers },
	{ "testp", "pa", GROUP_CLASS, GROUP_CLASS, .handlers = testp_handlers },
};
/* clang-format on */

FAMILY(float);
