/* SPDX-License-Identifier: MIT */
/*
 * Floating point numbers as bits, for every family that computes with them.
 *
 * f16 and bf16 are computed in double, where sums and products are exact, and rounded
 * once. f32 and f64 are the processor's own, in the rounding mode of the instruction.
 */
#pragma once

#include "modifier.h"

#include <math.h>
#include <string.h>

#define SINGLE_NAN 0x7fffffffU
#define HALF_NAN   0x7fffU
#define SIGN_32	   0x80000000U

/* A format: bits of the significand with the hidden one, and of the exponent. */
struct format {
	unsigned int precision;
	unsigned int exponent_bits;
};

extern const struct format format_half, format_bfloat, format_single, format_double;

/* A number taken apart: (-1)^negative * significand * 2^exponent, or none such. */
struct real {
	bool negative;
	bool is_nan;
	bool is_infinite;
	bool sticky;	      /* and a little more than that */
	uint64_t significand; /* 0, or with its top bit set */
	int exponent;
};

struct real real_decode(const struct format *format, uint64_t bits);
struct real real_integer(uint64_t magnitude, bool negative);

/* Rounds into a format. Overflow gives infinity or the largest number. */
uint64_t real_encode(const struct format *format, const struct real *real,
		     enum rounding rounding);

/* Rounds to an integer that a double or an integer of 64 bits holds. */
struct real real_integral(const struct real *real, enum rounding rounding);

static inline float single_value(uint32_t bits, bool ftz)
{
	float value;

	if (ftz && !(bits & 0x7f800000))
		bits &= SIGN_32;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* The bits of a result: a single NaN for all NaNs, flushed or clamped as requested. */
static inline uint32_t single_bits(float value, uint32_t flags)
{
	uint32_t bits;

	if (flags & FLAG_SAT)
		value = isnan(value) || value < 0 ? 0 : value > 1 ? 1 : value;
	if (isnan(value))
		return SINGLE_NAN;
	memcpy(&bits, &value, sizeof(bits));
	if (flags & FLAG_SAT && bits == SIGN_32)
		bits = 0;
	if (flags & FLAG_FTZ && !(bits & 0x7f800000))
		bits &= SIGN_32;
	return bits;
}

static inline double double_value(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline uint64_t double_bits(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

double half_value(uint16_t bits, bool ftz);
uint16_t half_bits(double value, uint32_t flags);
double bfloat_value(uint16_t bits);
uint16_t bfloat_bits(double value, uint32_t flags);

/* The processor's rounding mode. Returns: the one before, to be given back. */
int rounding_enter(enum rounding rounding);
void rounding_leave(int before);
