// SPDX-License-Identifier: MIT
// Sets n numbers to one value.
//
//   echo 'elements=4096 y f32:1.5 u32:4096' >modules/fill/functions/fill/launch

extern "C" __global__ void fill(float *to, float value, unsigned int n)
{
	const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		to[i] = value;
}
