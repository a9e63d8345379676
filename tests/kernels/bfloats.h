/* SPDX-License-Identifier: MIT */
/* Arithmetic of bf16, alone and in pairs. */
#include "device.h"

PTX_2(add_bf16, "add.rn.bf16", U16, U16, U16)
PTX_2(sub_bf16, "sub.rn.bf16", U16, U16, U16)
PTX_2(mul_bf16, "mul.rn.bf16", U16, U16, U16)
PTX_3(fma_bf16, "fma.rn.bf16", U16, U16, U16, U16)
PTX_3(fma_relu_bf16, "fma.rn.relu.bf16", U16, U16, U16, U16)
PTX_2(min_bf16, "min.bf16", U16, U16, U16)
PTX_2(min_nan_bf16, "min.NaN.bf16", U16, U16, U16)
PTX_2(max_bf16, "max.bf16", U16, U16, U16)
PTX_2(max_nan_bf16, "max.NaN.bf16", U16, U16, U16)
PTX_1(neg_bf16, "neg.bf16", U16, U16)
PTX_1(abs_bf16, "abs.bf16", U16, U16)
PTX_2(add_bf16x2, "add.rn.bf16x2", U32, U32, U32)
PTX_2(sub_bf16x2, "sub.rn.bf16x2", U32, U32, U32)
PTX_2(mul_bf16x2, "mul.rn.bf16x2", U32, U32, U32)
PTX_3(fma_bf16x2, "fma.rn.bf16x2", U32, U32, U32, U32)
PTX_3(fma_relu_bf16x2, "fma.rn.relu.bf16x2", U32, U32, U32, U32)
PTX_2(min_bf16x2, "min.bf16x2", U32, U32, U32)
PTX_2(min_nan_bf16x2, "min.NaN.bf16x2", U32, U32, U32)
PTX_2(max_bf16x2, "max.bf16x2", U32, U32, U32)
PTX_2(max_nan_bf16x2, "max.NaN.bf16x2", U32, U32, U32)
PTX_1(neg_bf16x2, "neg.bf16x2", U32, U32)
PTX_1(abs_bf16x2, "abs.bf16x2", U32, U32)

#define N_BFLOATS 22

DEVICE void bfloats_one(const uint64_t *in, uint64_t *out)
{
	const uint32_t a = (uint32_t)in[0], b = (uint32_t)in[1], c = (uint32_t)in[2];
	const uint16_t x = (uint16_t)(in[0] >> 48), y = (uint16_t)(in[1] >> 48);
	const uint16_t z = (uint16_t)(in[2] >> 48);
	int k = 0;

	out[k++] = add_bf16(x, y);
	out[k++] = sub_bf16(x, y);
	out[k++] = mul_bf16(x, y);
	out[k++] = fma_bf16(x, y, z);
	out[k++] = fma_relu_bf16(x, y, z);
	out[k++] = min_bf16(x, y);
	out[k++] = min_nan_bf16(x, y);
	out[k++] = max_bf16(x, y);
	out[k++] = max_nan_bf16(x, y);
	out[k++] = neg_bf16(x);
	out[k++] = abs_bf16(x);
	out[k++] = add_bf16x2(a, b);
	out[k++] = sub_bf16x2(a, b);
	out[k++] = mul_bf16x2(a, b);
	out[k++] = fma_bf16x2(a, b, c);
	out[k++] = fma_relu_bf16x2(a, b, c);
	out[k++] = min_bf16x2(a, b);
	out[k++] = min_nan_bf16x2(a, b);
	out[k++] = max_bf16x2(a, b);
	out[k++] = max_nan_bf16x2(a, b);
	out[k++] = neg_bf16x2(a);
	out[k++] = abs_bf16x2(a);
}

TORTURE(bfloats, N_BFLOATS)
