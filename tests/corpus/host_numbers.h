/* SPDX-License-Identifier: MIT */
/*
 * The results of PTX's floating point instructions: computed in types of the host with
 * the host's rounding modes, and in long double for formats unknown to the host.
 */
#pragma once

#include "host.h"

#include <fenv.h>
#include <math.h>

enum {
	FTZ = 1,
	SAT = 2,
	RELU = 4,
	INTEGRAL = 8,
	AWAY = 16,
	NANS = 32,
	XORSIGN = 64,
	CUT = 128, /* an integer of another's low bits */
};

static inline float f32_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline uint32_t f32_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline double f64_of(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline uint64_t f64_bits(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline float f32_flushed(float value, int flags)
{
	return flags & FTZ && fpclassify(value) == FP_SUBNORMAL ? copysignf(0, value)
								: value;
}

static inline uint32_t f32_result(float value, int flags)
{
	if (flags & SAT)
		value = value > 0 ? (value < 1 ? value : 1) : 0;
	return isnan(value) ? 0x7fffffff : f32_bits(f32_flushed(value, flags));
}

/* Of a NaN among the operands the first stays, made quiet. */
static inline uint64_t f64_result(double value, uint64_t a, uint64_t b, uint64_t c)
{
	const uint64_t quiet = 0x0008000000000000;

	if (isnan(f64_of(a)))
		return a | quiet;
	if (isnan(f64_of(b)))
		return b | quiet;
	if (isnan(f64_of(c)))
		return c | quiet;
	return isnan(value) ? 0xfff8000000000000 : f64_bits(value);
}

/* volatile: computed between the changes of the rounding mode. */
#define SINGLE(name, mode, flags, n, expression)                           \
	static inline uint32_t name(PARAMS_##n(uint32_t))                  \
	{                                                                  \
		volatile float a = f32_flushed(f32_of(x), flags);          \
		volatile float b = f32_flushed(f32_of(SECOND_##n), flags); \
		volatile float c = f32_flushed(f32_of(THIRD_##n), flags);  \
		volatile float to;                                         \
                                                                           \
		(void)b;                                                   \
		(void)c;                                                   \
		fesetround(mode);                                          \
		to = expression;                                           \
		fesetround(FE_TONEAREST);                                  \
		return f32_result(to, flags);                              \
	}
#define DOUBLE(name, mode, n, expression)                              \
	static inline uint64_t name(PARAMS_##n(uint64_t))              \
	{                                                              \
		volatile double a = f64_of(x), b = f64_of(SECOND_##n); \
		volatile double c = f64_of(THIRD_##n);                 \
		volatile double to;                                    \
                                                                       \
		(void)b;                                               \
		(void)c;                                               \
		fesetround(mode);                                      \
		to = expression;                                       \
		fesetround(FE_TONEAREST);                              \
		return f64_result(to, x, SECOND_##n, THIRD_##n);       \
	}
#define PARAMS_1(T) T x
#define PARAMS_2(T) T x, T y
#define PARAMS_3(T) T x, T y, T z
#define SECOND_1    0
#define SECOND_2    y
#define SECOND_3    y
#define THIRD_1	    0
#define THIRD_2	    0
#define THIRD_3	    z

#define ROUNDINGS(op, n, single, double)                 \
	SINGLE(op##_rn_f32, FE_TONEAREST, 0, n, single)  \
	SINGLE(op##_rz_f32, FE_TOWARDZERO, 0, n, single) \
	SINGLE(op##_rm_f32, FE_DOWNWARD, 0, n, single)   \
	SINGLE(op##_rp_f32, FE_UPWARD, 0, n, single)     \
	DOUBLE(op##_rn_f64, FE_TONEAREST, n, double)     \
	DOUBLE(op##_rz_f64, FE_TOWARDZERO, n, double)    \
	DOUBLE(op##_rm_f64, FE_DOWNWARD, n, double)      \
	DOUBLE(op##_rp_f64, FE_UPWARD, n, double)
ROUNDINGS(add, 2, a + b, a + b)
ROUNDINGS(sub, 2, a - b, a - b)
ROUNDINGS(mul, 2, a *b, a *b)
ROUNDINGS(div, 2, a / b, a / b)
ROUNDINGS(fma, 3, fmaf(a, b, c), fma(a, b, c))
ROUNDINGS(rcp, 1, 1 / a, 1 / a)
ROUNDINGS(sqrt, 1, sqrtf(a), sqrt(a))

SINGLE(add_sat_f32, FE_TONEAREST, SAT, 2, a + b)
SINGLE(mul_sat_f32, FE_TONEAREST, SAT, 2, a *b)
SINGLE(fma_sat_f32, FE_TONEAREST, SAT, 3, fmaf(a, b, c))

/* Ordered with -0 below +0; a number wins over a NaN, unless NANS. */
static inline double chosen(double a, double b, bool least, int flags)
{
	if (flags & XORSIGN) {
		const double to = chosen(fabs(a), fabs(b), least, 0);

		return signbit(a) != signbit(b) ? -to : to;
	}
	if (isnan(a) || isnan(b))
		return isnan(a) && isnan(b) ? a
		       : flags & NANS	    ? (double)NAN
		       : isnan(a)	    ? b
					    : a;
	if (a == b)
		return least == !!signbit(a) ? a : b;
	return (a < b) == least ? a : b;
}

#define CHOICE(op, least)                                                  \
	SINGLE(op##_f32, FE_TONEAREST, 0, 2,                               \
	       (float)chosen((double)a, (double)b, least, 0))              \
	SINGLE(op##_nan_f32, FE_TONEAREST, 0, 2,                           \
	       (float)chosen((double)a, (double)b, least, NANS))           \
	SINGLE(op##_ftz_f32, FE_TONEAREST, FTZ, 2,                         \
	       (float)chosen((double)a, (double)b, least, 0))              \
	SINGLE(op##_xorsign_f32, FE_TONEAREST, 0, 2,                       \
	       (float)chosen((double)a, (double)b, least, XORSIGN))        \
	static inline uint64_t op##_f64(uint64_t x, uint64_t y)            \
	{                                                                  \
		const double to = chosen(f64_of(x), f64_of(y), least, 0);  \
                                                                           \
		return isnan(to) ? f64_result(to, x, y, 0) : f64_bits(to); \
	}
CHOICE(min, true)
CHOICE(max, false)

/* In f32 every NaN becomes the same NaN; in f64 a NaN only becomes quiet. */
static inline uint32_t abs_f32(uint32_t a)
{
	return isnan(f32_of(a)) ? 0x7fffffff : a & 0x7fffffff;
}

static inline uint32_t neg_f32(uint32_t a)
{
	return isnan(f32_of(a)) ? 0x7fffffff : a ^ 0x80000000;
}

static inline uint32_t abs_ftz_f32(uint32_t a)
{
	return abs_f32(f32_bits(f32_flushed(f32_of(a), FTZ)));
}

static inline uint32_t neg_ftz_f32(uint32_t a)
{
	return neg_f32(f32_bits(f32_flushed(f32_of(a), FTZ)));
}

static inline uint32_t copysign_f32(uint32_t a, uint32_t b)
{
	return f32_bits(copysignf(f32_of(b), f32_of(a)));
}

static inline uint64_t abs_f64(uint64_t a)
{
	return a & INT64_MAX;
}

static inline uint64_t neg_f64(uint64_t a)
{
	return isnan(f64_of(a)) ? f64_result(0, a, 0, 0) : a ^ (uint64_t)INT64_MIN;
}

static inline uint64_t copysign_f64(uint64_t a, uint64_t b)
{
	return f64_bits(copysign(f64_of(b), f64_of(a)));
}

#define SET(how, expression)                                           \
	static inline uint32_t set_##how##_f32(uint32_t x, uint32_t y) \
	{                                                              \
		const float a = f32_of(x), b = f32_of(y);              \
                                                                       \
		return (expression) ? UINT32_MAX : 0;                  \
	}                                                              \
	static inline uint32_t set_##how##_f64(uint64_t x, uint64_t y) \
	{                                                              \
		const double a = f64_of(x), b = f64_of(y);             \
                                                                       \
		return (expression) ? UINT32_MAX : 0;                  \
	}
SET(eq, a == b)
SET(ne, islessgreater(a, b))
SET(lt, a < b)
SET(le, a <= b)
SET(gt, a > b)
SET(ge, a >= b)
SET(equ, !islessgreater(a, b))
SET(neu, a != b)
SET(ltu, !(a >= b))
SET(leu, !(a > b))
SET(gtu, !(a <= b))
SET(geu, !(a < b))
SET(num, !isunordered(a, b))
SET(nan, isunordered(a, b))

static inline uint32_t set_lt_ftz_f32(uint32_t x, uint32_t y)
{
	const float a = f32_flushed(f32_of(x), FTZ), b = f32_flushed(f32_of(y), FTZ);

	return a < b ? UINT32_MAX : 0;
}

static inline uint32_t set_gt_twice_f32(uint32_t x, uint32_t y)
{
	return f32_of(x) > f32_of(y) ? f32_bits(2) : 0;
}

#define TESTP(class, expression)                               \
	static inline uint32_t testp_##class##_f32(uint32_t x) \
	{                                                      \
		const float a = f32_of(x);                     \
                                                               \
		return (expression);                           \
	}                                                      \
	static inline uint32_t testp_##class##_f64(uint64_t x) \
	{                                                      \
		const double a = f64_of(x);                    \
                                                               \
		return (expression);                           \
	}
TESTP(finite, isfinite(a) != 0)
TESTP(infinite, isinf(a) != 0)
TESTP(number, !isnan(a))
TESTP(notanumber, isnan(a) != 0)
TESTP(normal, isnormal(a) || a == 0)
TESTP(subnormal, fpclassify(a) == FP_SUBNORMAL)

/* Formats by the bits of their significand and their least and largest exponents. */
struct shape {
	int precision;
	int least;
	int most;
	int fraction; /* bits */
};

static const struct shape shape_F16 = { 11, -14, 15, 10 };
static const struct shape shape_BF16 = { 8, -126, 127, 7 };
static const struct shape shape_TF32 = { 11, -126, 127, 10 };
static const struct shape shape_F32 = { 24, -126, 127, 23 };
static const struct shape shape_F64 = { 53, -1022, 1023, 52 };

/* The nearest number of a format in a direction. */
static inline long double rounded(const struct shape *shape, long double value, int mode,
				  int flags)
{
	const long double most = ldexpl(2 - ldexpl(1, 1 - shape->precision), shape->most);
	volatile long double scaled, to;
	int exponent;

	if (!isfinite(value) || value == 0)
		return value;
	exponent = ilogbl(value);
	if (exponent < shape->least)
		exponent = shape->least;
	exponent -= shape->precision - 1;
	scaled = ldexpl(value, -exponent);
	fesetround(mode);
	to = flags & AWAY ? roundl(scaled) : rintl(scaled);
	fesetround(FE_TONEAREST);
	to = ldexpl(to, exponent);
	if (fabsl(to) <= most)
		return to;
	if (mode == FE_TOWARDZERO || (mode == FE_DOWNWARD && to > 0) ||
	    (mode == FE_UPWARD && to < 0))
		return copysignl(most, to);
	return copysignl(HUGE_VALL, to);
}

/* The bits of a number that the format has. */
static inline uint64_t packed(const struct shape *shape, long double value)
{
	const uint64_t top = (uint64_t)(shape->most - shape->least + 2);
	const int bits = shape->fraction;
	const uint64_t exponent_bits = (uint64_t)__builtin_popcountll(top);
	const uint64_t sign = (uint64_t) !!signbit(value) << (bits + (int)exponent_bits);
	int exponent;

	if (isnan(value))
		return ((uint64_t)1 << (bits + (int)exponent_bits)) - 1;
	if (isinf(value))
		return sign | top << bits;
	value = fabsl(value);
	if (value == 0)
		return sign;
	exponent = ilogbl(value);
	if (exponent < shape->least)
		return sign | (uint64_t)ldexpl(value, bits - shape->least);
	return sign | (uint64_t)(exponent - shape->least + 1) << bits |
	       (uint64_t)ldexpl(value - ldexpl(1, exponent), bits - exponent);
}

/* NaNs with their fractions: 63 bits, below the leading one. */
static inline long double nan_of(uint64_t fraction)
{
	long double value = (long double)NAN;

	fraction |= (uint64_t)1 << 63;
	memcpy(&value, &fraction, sizeof(fraction));
	return value;
}

static inline uint64_t nan_fraction(long double value)
{
	uint64_t fraction;

	memcpy(&fraction, &value, sizeof(fraction));
	return fraction & INT64_MAX;
}

/* A NaN in a format: what fits of its fraction, quiet, and its sign. */
static inline uint64_t packed_nan(const struct shape *shape, long double value)
{
	const uint64_t infinite = packed(shape, copysignl(HUGE_VALL, value));

	return infinite | (uint64_t)1 << (shape->fraction - 1) |
	       nan_fraction(value) >> (63 - shape->fraction);
}

static inline long double unpacked(const struct shape *shape, uint64_t bits)
{
	const int fraction_bits = shape->fraction;
	const uint64_t top = (uint64_t)(shape->most - shape->least + 2);
	const uint64_t exponent = bits >> fraction_bits & top;
	const uint64_t fraction = bits & (((uint64_t)1 << fraction_bits) - 1);
	const bool negative = bits >> (fraction_bits + __builtin_popcountll(top)) & 1;
	long double value;

	if (exponent == top)
		value = fraction ? nan_of(fraction << (63 - fraction_bits)) : HUGE_VALL;
	else if (!exponent)
		value = ldexpl(fraction, shape->least - fraction_bits);
	else
		value = ldexpl(fraction | (uint64_t)1 << fraction_bits,
			       shape->least - fraction_bits + (int)exponent - 1);
	return negative ? -value : value;
}

/* Halves: sums of products are exact in 64 bits, or far from where it would matter. */
static inline uint16_t half_of(const struct shape *shape, long double value, int flags)
{
	uint16_t bits;

	if (flags & SAT)
		value = value > 0 ? (value < 1 ? value : 1) : 0;
	if (flags & RELU && !isnan(value) && signbit(value))
		value = 0;
	bits = (uint16_t)packed(shape, rounded(shape, value, FE_TONEAREST, 0));
	if (flags & FTZ && !(bits & 0x7c00))
		bits &= 0x8000;
	return isnan(value) ? 0x7fff : bits;
}

static inline long double half_in(const struct shape *shape, uint16_t bits, int flags)
{
	if (flags & FTZ && !(bits & 0x7c00))
		bits &= 0x8000;
	return unpacked(shape, bits);
}

/* volatile: the compiler must not merge two computations under different rounding modes.
 */
static inline long double product_sum_in(int mode, long double x, long double y,
					 long double z)
{
	volatile long double a = x, b = y, c = z, to;

	fesetround(mode);
	to = a * b + c;
	fesetround(FE_TONEAREST);
	return to;
}

/* a * b + c rounded to odd in long double, so that it can be rounded again. */
static inline long double product_sum(long double a, long double b, long double c)
{
	const long double low = product_sum_in(FE_DOWNWARD, a, b, c);
	const long double high = product_sum_in(FE_UPWARD, a, b, c);
	uint64_t low_bits;

	if (!(low < high))
		return product_sum_in(FE_TONEAREST, a, b, c);
	memcpy(&low_bits, &low, sizeof(low_bits));
	return low_bits & 1 ? low : high;
}

/*
 * Singles with .ftz: rounded to 24 bits as if exponents had no end, and 0 if that is less
 * than the least normal number.
 */
static inline uint32_t f32_flushed_of(long double exact, int flags)
{
	static const struct shape endless = { 24, -1000, 127, 23 };
	const long double value = rounded(&endless, exact, FE_TONEAREST, 0);

	return f32_result(fabsl(value) < 0x1p-126L ? copysignf(0, (float)value)
						   : (float)value,
			  flags);
}

#define FLUSHED(name, flags, n, exact)                                                   \
	static inline uint32_t name(PARAMS_##n(uint32_t))                                \
	{                                                                                \
		const long double a = (long double)f32_flushed(f32_of(x), FTZ);          \
		const long double b = (long double)f32_flushed(f32_of(SECOND_##n), FTZ); \
		const long double c = (long double)f32_flushed(f32_of(THIRD_##n), FTZ);  \
                                                                                         \
		(void)b;                                                                 \
		(void)c;                                                                 \
		return f32_flushed_of(exact, flags);                                     \
	}
FLUSHED(add_ftz_f32, FTZ, 2, product_sum(a, 1, b))
FLUSHED(mul_ftz_f32, FTZ, 2, a *b)
FLUSHED(div_ftz_f32, FTZ, 2, a / b)
FLUSHED(fma_ftz_f32, FTZ, 3, product_sum(a, b, c))
FLUSHED(rcp_ftz_f32, FTZ, 1, 1 / a)
FLUSHED(sqrt_ftz_f32, FTZ, 1, sqrtl(a))
FLUSHED(fma_ftz_sat_f32, FTZ | SAT, 3, product_sum(a, b, c))

static inline long double chosen_half(long double a, long double b, bool least, int flags)
{
	return (long double)chosen((double)a, (double)b, least, flags);
}

#define HALF(name, shape, flags, n, expression)                           \
	static inline uint16_t name(PARAMS_##n(uint16_t))                 \
	{                                                                 \
		const long double a = half_in(&shape, x, flags);          \
		const long double b = half_in(&shape, SECOND_##n, flags); \
		const long double c = half_in(&shape, THIRD_##n, flags);  \
                                                                          \
		(void)b;                                                  \
		(void)c;                                                  \
		return half_of(&shape, expression, flags);                \
	}                                                                 \
	static inline uint32_t name##x2(PARAMS_##n(uint32_t))             \
	{                                                                 \
		return (uint32_t)name(HIGHS_##n) << 16 | name(LOWS_##n);  \
	}
#define LOWS_1	(uint16_t) x
#define LOWS_2	(uint16_t) x, (uint16_t)y
#define LOWS_3	(uint16_t) x, (uint16_t)y, (uint16_t)z
#define HIGHS_1 (uint16_t)(x >> 16)
#define HIGHS_2 (uint16_t)(x >> 16), (uint16_t)(y >> 16)
#define HIGHS_3 (uint16_t)(x >> 16), (uint16_t)(y >> 16), (uint16_t)(z >> 16)

#define HALVES(kind, shape)                                              \
	HALF(add_##kind, shape, 0, 2, product_sum(a, 1, b))              \
	HALF(sub_##kind, shape, 0, 2, product_sum(a, 1, -b))             \
	HALF(mul_##kind, shape, 0, 2, a *b)                              \
	HALF(fma_##kind, shape, 0, 3, product_sum(a, b, c))              \
	HALF(fma_relu_##kind, shape, RELU, 3, product_sum(a, b, c))      \
	HALF(min_##kind, shape, 0, 2, chosen_half(a, b, true, 0))        \
	HALF(max_##kind, shape, 0, 2, chosen_half(a, b, false, 0))       \
	HALF(min_nan_##kind, shape, 0, 2, chosen_half(a, b, true, NANS)) \
	HALF(max_nan_##kind, shape, 0, 2, chosen_half(a, b, false, NANS))
HALVES(f16, shape_F16)
HALVES(bf16, shape_BF16)
HALF(add_ftz_f16, shape_F16, FTZ, 2, product_sum(a, 1, b))
HALF(mul_sat_f16, shape_F16, SAT, 2, a *b)
HALF(fma_ftz_f16, shape_F16, FTZ, 3, product_sum(a, b, c))
HALF(fma_sat_f16, shape_F16, SAT, 3, product_sum(a, b, c))
HALF(min_ftz_f16, shape_F16, FTZ, 2, chosen_half(a, b, true, 0))
HALF(max_ftz_f16, shape_F16, FTZ, 2, chosen_half(a, b, false, 0))

/* Every NaN becomes the same NaN. */
static inline uint16_t half_signed(const struct shape *shape, uint16_t from, int to)
{
	return isnan(unpacked(shape, from)) ? 0x7fff : (uint16_t)to;
}

#define SIGNS(kind, shape)                                               \
	static inline uint16_t neg_##kind(uint16_t x)                    \
	{                                                                \
		return half_signed(&shape, x, x ^ 0x8000);               \
	}                                                                \
	static inline uint16_t abs_##kind(uint16_t x)                    \
	{                                                                \
		return half_signed(&shape, x, x & 0x7fff);               \
	}                                                                \
	static inline uint32_t neg_##kind##x2(uint32_t x)                \
	{                                                                \
		return (uint32_t)neg_##kind((uint16_t)(x >> 16)) << 16 | \
		       neg_##kind((uint16_t)x);                          \
	}                                                                \
	static inline uint32_t abs_##kind##x2(uint32_t x)                \
	{                                                                \
		return (uint32_t)abs_##kind((uint16_t)(x >> 16)) << 16 | \
		       abs_##kind((uint16_t)x);                          \
	}
SIGNS(f16, shape_F16)
SIGNS(bf16, shape_BF16)
