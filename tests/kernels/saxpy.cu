// SPDX-License-Identifier: MIT
// y = a * x + y, for n numbers.
//
//   echo 'elements=4096 u32:4096 f32:2 in:x y' >modules/saxpy/functions/saxpy/launch

extern "C" __global__ void saxpy(unsigned int n, float a, const float *x, float *y)
{
	const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		y[i] = a * x[i] + y[i];
}
