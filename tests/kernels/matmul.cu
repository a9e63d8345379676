// SPDX-License-Identifier: MIT
// c = a * b, square matrices of n rows, a tile of 16 by 16 at a time.
//
//   echo 'grid=4,4 block=16,16 in:a in:b out:c u32:64' >modules/matmul/functions/matmul/launch

#define TILE 16

extern "C" __global__ void matmul(const float *a, const float *b, float *c, unsigned int n)
{
	__shared__ float left[TILE][TILE], right[TILE][TILE];
	const unsigned int x = threadIdx.x, y = threadIdx.y;
	const unsigned int column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
	float sum = 0;

	for (unsigned int at = 0; at < n; at += TILE) {
		left[y][x] = row < n && at + x < n ? a[row * n + at + x] : 0;
		right[y][x] = at + y < n && column < n ? b[(at + y) * n + column] : 0;
		__syncthreads();
		for (unsigned int i = 0; i < TILE; i++)
			sum += left[y][i] * right[i][x];
		__syncthreads();
	}
	if (row < n && column < n)
		c[row * n + column] = sum;
}
