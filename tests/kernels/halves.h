/* SPDX-License-Identifier: MIT */
/* Arithmetic of f16, alone and in pairs. */
#include "device.h"

PTX_2(add_f16, "add.rn.f16", U16, U16, U16)
PTX_2(sub_f16, "sub.rn.f16", U16, U16, U16)
PTX_2(mul_f16, "mul.rn.f16", U16, U16, U16)
PTX_2(add_ftz_f16, "add.rn.ftz.f16", U16, U16, U16)
PTX_2(mul_sat_f16, "mul.rn.sat.f16", U16, U16, U16)
PTX_3(fma_f16, "fma.rn.f16", U16, U16, U16, U16)
PTX_3(fma_ftz_f16, "fma.rn.ftz.f16", U16, U16, U16, U16)
PTX_3(fma_sat_f16, "fma.rn.sat.f16", U16, U16, U16, U16)
PTX_3(fma_relu_f16, "fma.rn.relu.f16", U16, U16, U16, U16)
PTX_2(min_f16, "min.f16", U16, U16, U16)
PTX_2(min_nan_f16, "min.NaN.f16", U16, U16, U16)
PTX_2(min_ftz_f16, "min.ftz.f16", U16, U16, U16)
PTX_2(max_f16, "max.f16", U16, U16, U16)
PTX_2(max_nan_f16, "max.NaN.f16", U16, U16, U16)
PTX_2(max_ftz_f16, "max.ftz.f16", U16, U16, U16)
PTX_1(neg_f16, "neg.f16", U16, U16)
PTX_1(abs_f16, "abs.f16", U16, U16)
PTX_2(add_f16x2, "add.rn.f16x2", U32, U32, U32)
PTX_2(sub_f16x2, "sub.rn.f16x2", U32, U32, U32)
PTX_2(mul_f16x2, "mul.rn.f16x2", U32, U32, U32)
PTX_2(add_ftz_f16x2, "add.rn.ftz.f16x2", U32, U32, U32)
PTX_2(mul_sat_f16x2, "mul.rn.sat.f16x2", U32, U32, U32)
PTX_3(fma_f16x2, "fma.rn.f16x2", U32, U32, U32, U32)
PTX_3(fma_ftz_f16x2, "fma.rn.ftz.f16x2", U32, U32, U32, U32)
PTX_3(fma_sat_f16x2, "fma.rn.sat.f16x2", U32, U32, U32, U32)
PTX_3(fma_relu_f16x2, "fma.rn.relu.f16x2", U32, U32, U32, U32)
PTX_2(min_f16x2, "min.f16x2", U32, U32, U32)
PTX_2(min_nan_f16x2, "min.NaN.f16x2", U32, U32, U32)
PTX_2(min_ftz_f16x2, "min.ftz.f16x2", U32, U32, U32)
PTX_2(max_f16x2, "max.f16x2", U32, U32, U32)
PTX_2(max_nan_f16x2, "max.NaN.f16x2", U32, U32, U32)
PTX_2(max_ftz_f16x2, "max.ftz.f16x2", U32, U32, U32)
PTX_1(neg_f16x2, "neg.f16x2", U32, U32)
PTX_1(abs_f16x2, "abs.f16x2", U32, U32)

#define N_HALVES 34

DEVICE void halves_one(const uint64_t *in, uint64_t *out)
{
	const uint32_t a = (uint32_t)in[0], b = (uint32_t)in[1], c = (uint32_t)in[2];
	const uint16_t x = (uint16_t)(in[0] >> 48), y = (uint16_t)(in[1] >> 48);
	const uint16_t z = (uint16_t)(in[2] >> 48);
	int k = 0;

	out[k++] = add_f16(x, y);
	out[k++] = sub_f16(x, y);
	out[k++] = mul_f16(x, y);
	out[k++] = add_ftz_f16(x, y);
	out[k++] = mul_sat_f16(x, y);
	out[k++] = fma_f16(x, y, z);
	out[k++] = fma_ftz_f16(x, y, z);
	out[k++] = fma_sat_f16(x, y, z);
	out[k++] = fma_relu_f16(x, y, z);
	out[k++] = min_f16(x, y);
	out[k++] = min_nan_f16(x, y);
	out[k++] = min_ftz_f16(x, y);
	out[k++] = max_f16(x, y);
	out[k++] = max_nan_f16(x, y);
	out[k++] = max_ftz_f16(x, y);
	out[k++] = neg_f16(x);
	out[k++] = abs_f16(x);
	out[k++] = add_f16x2(a, b);
	out[k++] = sub_f16x2(a, b);
	out[k++] = mul_f16x2(a, b);
	out[k++] = add_ftz_f16x2(a, b);
	out[k++] = mul_sat_f16x2(a, b);
	out[k++] = fma_f16x2(a, b, c);
	out[k++] = fma_ftz_f16x2(a, b, c);
	out[k++] = fma_sat_f16x2(a, b, c);
	out[k++] = fma_relu_f16x2(a, b, c);
	out[k++] = min_f16x2(a, b);
	out[k++] = min_nan_f16x2(a, b);
	out[k++] = min_ftz_f16x2(a, b);
	out[k++] = max_f16x2(a, b);
	out[k++] = max_nan_f16x2(a, b);
	out[k++] = max_ftz_f16x2(a, b);
	out[k++] = neg_f16x2(a);
	out[k++] = abs_f16x2(a);
}

TORTURE(halves, N_HALVES)
