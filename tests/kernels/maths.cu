// SPDX-License-Identifier: MIT
// Functions of the mathematical library and the approximate instructions beneath it.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#define N_SINGLE_MATHS 32

extern "C" __global__ void single_maths(const float *x, const float *y, float *out, uint32_t n)
{
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
	float *to = out + N_SINGLE_MATHS * i;
	int k = 0;

	if (i >= n)
		return;
	const float a = x[i], b = y[i];
	to[k++] = sinf(a);
	to[k++] = cosf(a);
	to[k++] = tanf(a);
	to[k++] = expf(a);
	to[k++] = exp2f(a);
	to[k++] = logf(b);
	to[k++] = log2f(b);
	to[k++] = log10f(b);
	to[k++] = powf(b, a);
	to[k++] = erff(a);
	to[k++] = tanhf(a);
	to[k++] = atan2f(a, b);
	to[k++] = sqrtf(b);
	to[k++] = rsqrtf(b);
	to[k++] = cbrtf(a);
	to[k++] = hypotf(a, b);
	to[k++] = fmodf(a, b);
	to[k++] = floorf(a);
	to[k++] = rintf(a);
	to[k++] = a / b;
	to[k++] = __sinf(a);
	to[k++] = __cosf(a);
	to[k++] = __expf(a);
	to[k++] = __logf(b);
	to[k++] = __fdividef(a, b);
	to[k++] = __powf(b, a);
	to[k++] = lgammaf(b);
	to[k++] = asinhf(a);
	to[k++] = __half2float(__hadd(__float2half(a), __hmul(__float2half(b), __float2half(a))));
	to[k++] = __bfloat162float(__hfma(__float2bfloat16(a), __float2bfloat16(b),
					  __float2bfloat16(a)));
	to[k++] = __half2float(hexp(__float2half(a)));
	to[k++] = __low2float(__hmul2(__floats2half2_rn(a, b), __floats2half2_rn(b, a)));
}

#define N_DOUBLE_MATHS 20

extern "C" __global__ void double_maths(const double *x, const double *y, double *out, uint32_t n)
{
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
	double *to = out + N_DOUBLE_MATHS * i;
	int k = 0;

	if (i >= n)
		return;
	const double a = x[i], b = y[i];
	to[k++] = sin(a);
	to[k++] = cos(a);
	to[k++] = tan(a);
	to[k++] = exp(a);
	to[k++] = exp2(a);
	to[k++] = log(b);
	to[k++] = log2(b);
	to[k++] = log10(b);
	to[k++] = pow(b, a);
	to[k++] = erf(a);
	to[k++] = tanh(a);
	to[k++] = atan2(a, b);
	to[k++] = sqrt(b);
	to[k++] = rsqrt(b);
	to[k++] = cbrt(a);
	to[k++] = hypot(a, b);
	to[k++] = fmod(a, b);
	to[k++] = floor(a);
	to[k++] = a / b;
	to[k++] = tgamma(b);
}
