/* SPDX-License-Identifier: MIT */
/* A program of the CUDA runtime: the first call that fails ends it. */
#include <cstdio>
#include <cstdlib>

static void must(cudaError_t result, const char *call)
{
	if (result == cudaSuccess)
		return;
	printf("%s: %s\n", call, cudaGetErrorName(result));
	exit(1);
}

#define MUST(call) must(call, #call)

__global__ void saxpy(int n, float a, const float *x, float *y)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		y[i] += a * x[i];
}

int main()
{
	const int n = 1000;
	float *x, *y;

	MUST(cudaMallocManaged(&x, n * sizeof(*x)));
	MUST(cudaMallocManaged(&y, n * sizeof(*y)));
	for (int i = 0; i < n; i++)
		x[i] = y[i] = i;
	saxpy<<<4, 256>>>(n, 2, x, y);
	MUST(cudaDeviceSynchronize());
	for (int i = 0; i < n; i++)
		if (y[i] != 3 * i)
			return 2;
	return 0;
}
