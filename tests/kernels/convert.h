/* SPDX-License-Identifier: MIT */
/* Conversions between all types, in every rounding mode. */
#include "device.h"

#define CONVERT(name, instruction, to, T, from, A, rounding, flags) \
	PTX_1(name, instruction, T, A)
#include "conversions.h"
#undef CONVERT

#define N_CONVERT 327

DEVICE void convert_one(const uint64_t *in, uint64_t *out)
{
	int k = 0;

#define CONVERT(name, instruction, to, T, from, A, rounding, flags) \
	out[k++] = name((C_##A)in[0]);
#include "conversions.h"
#undef CONVERT
}

TORTURE(convert, N_CONVERT)
