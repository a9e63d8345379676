/* SPDX-License-Identifier: MIT */
/*
 * Taking numbers apart and rounding them into another format, in integers, so that the
 * result is right for every format and rounding mode alike.
 */
#include "number.h"

#include <fenv.h>

const struct format format_half = { 11, 5 };
const struct format format_bfloat = { 8, 8 };
const struct format format_single = { 24, 8 };
const struct format format_double = { 53, 11 };

static int format_bias(const struct format *format)
{
	return (1 << (format->exponent_bits - 1)) - 1;
}

static void real_normalize(struct real *real)
{
	if (!real->significand)
		return;
	const int shift = __builtin_clzll(real->significand);

	real->significand <<= shift;
	real->exponent -= shift;
}

struct real real_decode(const struct format *format, uint64_t bits)
{
	const unsigned int fraction_bits = format->precision - 1;
	const uint64_t fraction = bits & (((uint64_t)1 << fraction_bits) - 1);
	const int top = (1 << format->exponent_bits) - 1;
	const int exponent = (int)(bits >> fraction_bits) & top;
	struct real real = {
		.negative = bits >> (fraction_bits + format->exponent_bits) & 1,
	};

	if (exponent == top) {
		real.is_nan = fraction != 0;
		real.is_infinite = !fraction;
		return real;
	}
	real.significand = fraction | (uint64_t)(exponent != 0) << fraction_bits;
	real.exponent = MAX(exponent, 1) - format_bias(format) - (int)fraction_bits;
	real_normalize(&real);
	return real;
}

struct real real_integer(uint64_t magnitude, bool negative)
{
	struct real real = { .negative = negative, .significand = magnitude };

	real_normalize(&real);
	return real;
}

/* Whether rounding adds 1 to the kept part; rest: the part cut off, of half * 2. */
static bool rounds_up(enum rounding rounding, bool negative, bool odd, uint64_t rest,
		      uint64_t half, bool sticky)
{
	const bool inexact = rest || sticky;

	switch (rounding) {
	case ROUND_RZ:
		return false;
	case ROUND_RM:
		return negative && inexact;
	case ROUND_RP:
		return !negative && inexact;
	case ROUND_RNA:
		return rest >= half;
	default:
		return rest > half || (rest == half && (sticky || odd));
	}
}

/* Drops the low n bits, 1 to 64 and more. */
static uint64_t round_shift(const struct real *real, int n, enum rounding rounding)
{
	uint64_t kept, rest, half;
	bool sticky = real->sticky;

	if (n <= 0)
		return real->significand << -n;
	if (n > 64) {
		kept = 0;
		rest = 0;
		half = 1;
		sticky |= real->significand != 0;
	} else if (n == 64) {
		kept = 0;
		rest = real->significand;
		half = (uint64_t)1 << 63;
	} else {
		kept = real->significand >> n;
		rest = real->significand & (((uint64_t)1 << n) - 1);
		half = (uint64_t)1 << (n - 1);
	}
	return kept + rounds_up(rounding, real->negative, kept & 1, rest, half, sticky);
}

/* Past the largest: infinite, unless the rounding goes the other way. */
static uint64_t overflow(const struct format *format, bool negative,
			 enum rounding rounding)
{
	const uint64_t infinity = (((uint64_t)1 << format->exponent_bits) - 1)
				  << (format->precision - 1);
	const bool inward = rounding == ROUND_RZ || (rounding == ROUND_RM && !negative) ||
			    (rounding == ROUND_RP && negative);

	return inward ? infinity - 1 : infinity;
}

uint64_t real_encode(const struct format *format, const struct real *real,
		     enum rounding rounding)
{
	const unsigned int fraction_bits = format->precision - 1;
	const unsigned int sign_bit = fraction_bits + format->exponent_bits;
	const uint64_t sign = (uint64_t)real->negative << sign_bit;
	const int least = 1 - format_bias(format) - (int)fraction_bits;
	const int top = (1 << format->exponent_bits) - 1;
	/* The exponent of the last bit that is kept. */
	int last = real->exponent + 64 - (int)format->precision;
	uint64_t kept;

	if (real->is_nan)
		return ((uint64_t)1 << sign_bit) - 1;
	if (real->is_infinite)
		return sign | (uint64_t)top << fraction_bits;
	if (!real->significand)
		return sign;
	last = MAX(last, least);
	kept = round_shift(real, last - real->exponent, rounding);
	if (kept >> format->precision) {
		kept >>= 1;
		last++;
	}
	if (last - least + 1 >= top)
		return sign | overflow(format, real->negative, rounding);
	if (!(kept >> fraction_bits))
		return sign | kept;
	return sign | (uint64_t)(last - least + 1) << fraction_bits |
	       (kept & (((uint64_t)1 << fraction_bits) - 1));
}

struct real real_integral(const struct real *real, enum rounding rounding)
{
	struct real rounded = *real;

	if (real->is_nan || real->is_infinite || real->exponent >= 0 ||
	    !real->significand)
		return rounded;
	rounded.significand = round_shift(real, MIN(-real->exponent, 65), rounding);
	rounded.exponent = 0;
	rounded.sticky = false;
	real_normalize(&rounded);
	return rounded;
}

double half_value(uint16_t bits, bool ftz)
{
	const struct real real = real_decode(&format_half, bits);

	if (ftz && !(bits & 0x7c00))
		return bits & 0x8000 ? -0.0 : 0.0;
	return double_value(real_encode(&format_double, &real, ROUND_RN));
}

uint16_t half_bits(double value, uint32_t flags)
{
	struct real real;
	uint16_t bits;

	if (flags & FLAG_SAT)
		value = isnan(value) || value <= 0 ? 0 : value > 1 ? 1 : value;
	real = real_decode(&format_double, double_bits(value));
	bits = (uint16_t)real_encode(&format_half, &real, ROUND_RN);
	if (flags & FLAG_RELU && bits & 0x8000)
		bits = 0;
	if (flags & FLAG_FTZ && !(bits & 0x7c00))
		bits &= 0x8000;
	return bits;
}

double bfloat_value(uint16_t bits)
{
	return (double)single_value((uint32_t)bits << 16, false);
}

uint16_t bfloat_bits(double value, uint32_t flags)
{
	const struct real real = real_decode(&format_double, double_bits(value));
	const uint16_t bits = (uint16_t)real_encode(&format_bfloat, &real, ROUND_RN);

	return flags & FLAG_RELU && bits & 0x8000 ? 0 : bits;
}

int rounding_enter(enum rounding rounding)
{
	static const int modes[] = {
		[ROUND_NONE] = FE_TONEAREST, [ROUND_RN] = FE_TONEAREST,
		[ROUND_RZ] = FE_TOWARDZERO,  [ROUND_RM] = FE_DOWNWARD,
		[ROUND_RP] = FE_UPWARD,	     [ROUND_RNA] = FE_TONEAREST,
	};
	const int before = fegetround();

	if (modes[rounding] != before)
		fesetround(modes[rounding]);
	return before;
}

void rounding_leave(int before)
{
	if (fegetround() != before)
		fesetround(before);
}
