// SPDX-License-Identifier: MIT
// Kernels that use an element too many: behind the end of an array, or before its start.
//
// Compiled with -lineinfo. A comment `LINE name` marks the line that a fault names.

// y[0] to y[n]: the last is behind the end.
extern "C" __global__ void store_behind(unsigned int n, float *y)
{
	const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i <= n)
		y[i] = (float)i; // LINE store_behind
}

// y[-1] to y[n - 2]: the first is before the start.
extern "C" __global__ void store_before(unsigned int n, float *y)
{
	const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		y[(long long)i - 1] = (float)i; // LINE store_before
}

// The mean of neighbours, by a function that the compiler puts into the kernel.
static __device__ float mean(const float *x, long long i)
{
	return (x[i] + x[i + 1]) / 2; // LINE load_behind
}

extern "C" __global__ void load_behind(unsigned int n, const float *x, float *y)
{
	const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		y[i] = mean(x, i);
}

extern "C" __global__ void load_before(unsigned int n, const float *x, float *y)
{
	const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		y[i] = x[(long long)i - 1]; // LINE load_before
}

// A byte too many, the smallest mistake there is.
extern "C" __global__ void store_byte_behind(unsigned int n, char *y)
{
	const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i <= n)
		y[i] = (char)i; // LINE store_byte_behind
}

// A sum of all, with an element too many.
extern "C" __global__ void add_behind(unsigned int n, unsigned int *y)
{
	const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i <= n)
		atomicAdd(&y[i], 1); // LINE add_behind
}
