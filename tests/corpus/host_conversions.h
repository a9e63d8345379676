/* SPDX-License-Identifier: MIT */
/*
 * The results of PTX's conversions. A long double holds every source value exactly.
 *
 * From or to f64 a NaN keeps the bits for which the target has room. Between all other
 * types each NaN becomes the canonical NaN of the target. With .ftz an f32 NaN is made
 * canonical before the conversion.
 */
#pragma once

#include "host_numbers.h"

#define FROM_FLOAT(kind)                                                         \
	static inline long double from_##kind(uint64_t bits, int flags)          \
	{                                                                        \
		const long double value = unpacked(&shape_##kind, bits);         \
                                                                                 \
		if (isnan(value) && flags & FTZ && &shape_##kind == &shape_F32)  \
			return unpacked(&shape_F32, 0x7fffffff);                 \
		return flags & FTZ && fabsl(value) < 0x1p-126L &&                \
				       &shape_##kind == &shape_F32               \
			       ? copysignl(0, value)                             \
			       : value;                                          \
	}                                                                        \
	static inline uint64_t to_##kind(long double value, int mode, int flags, \
					 bool is_wide)                           \
	{                                                                        \
		if (isnan(value) && !(flags & SAT) &&                            \
		    (is_wide || &shape_##kind == &shape_F64))                    \
			return packed_nan(&shape_##kind, value);                 \
		if (flags & INTEGRAL && isfinite(value))                         \
			value = to_integral(value, mode);                        \
		if (flags & SAT)                                                 \
			value = value > 0 ? (value < 1 ? value : 1) : 0;         \
		if (flags & RELU && !isnan(value) && signbit(value))             \
			value = 0;                                               \
		value = rounded(&shape_##kind, value, mode, flags);              \
		if (flags & FTZ && &shape_##kind == &shape_F32 &&                \
		    fabsl(value) < 0x1p-126L)                                    \
			value = copysignl(0, value);                             \
		return packed(&shape_##kind, value);                             \
	}

static inline long double to_integral(long double value, int mode)
{
	volatile long double to;

	fesetround(mode);
	to = rintl(value);
	fesetround(FE_TONEAREST);
	return copysignl(to, value);
}

FROM_FLOAT(F16)
FROM_FLOAT(BF16)
FROM_FLOAT(F32)
FROM_FLOAT(F64)

/* Of a NaN the low bits are cut, and nothing else changes. */
static inline uint64_t to_TF32(long double value, int mode, int flags, bool is_wide)
{
	(void)is_wide;
	if (isnan(value))
		return (uint64_t) !!signbit(value) << 31 | 0x7f800000 |
		       nan_fraction(value) >> 53 << 13;
	return packed(&shape_TF32, rounded(&shape_TF32, value, mode, flags)) << 13;
}

/* Clamped; a NaN is 0, or the top bit where one side has 64 bits. */
#define INTEGER(kind, T, M, bits)                                                        \
	static inline long double from_##kind(uint64_t value, int flags)                 \
	{                                                                                \
		(void)flags;                                                             \
		return (T)value;                                                         \
	}                                                                                \
	static inline uint64_t to_##kind(long double value, int mode, int flags,         \
					 bool is_wide)                                   \
	{                                                                                \
		const T most = (T)-1 > 0 ? (T)-1 : (T)(((uint64_t)1 << (bits - 1)) - 1); \
		const T least = (T)-1 > 0 ? 0 : (T)((uint64_t)1 << (bits - 1));          \
                                                                                         \
		if (flags & CUT)                                                         \
			return (M)(T)(uint64_t)(value < 0 ? (uint64_t)(int64_t)value     \
							  : (uint64_t)value);            \
		if (isnan(value))                                                        \
			return is_wide || bits == 64 ? (M)(T)((uint64_t)1 << (bits - 1)) \
						     : 0;                                \
		value = isfinite(value) ? to_integral(value, mode) : value;              \
		if (value >= (long double)most)                                          \
			return (M)most;                                                  \
		if (value <= (long double)least)                                         \
			return (M)least;                                                 \
		return (M)(T)value;                                                      \
	}
INTEGER(U8, uint8_t, uint32_t, 8)
INTEGER(S8, int8_t, uint32_t, 8)
INTEGER(U16, uint16_t, uint16_t, 16)
INTEGER(S16, int16_t, uint16_t, 16)
INTEGER(U32, uint32_t, uint32_t, 32)
INTEGER(S32, int32_t, uint32_t, 32)
INTEGER(U64, uint64_t, uint64_t, 64)
INTEGER(S64, int64_t, uint64_t, 64)

#define CONVERT(name, instruction, to, T, from, A, rounding, flags)           \
	static inline C_##T name(C_##A x)                                     \
	{                                                                     \
		return (C_##T)to_##to(from_##from(x, flags), rounding, flags, \
				      sizeof(#from) == 4 && #from[1] == '6'); \
	}
#include "conversions.h"
#undef CONVERT
