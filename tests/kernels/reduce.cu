// SPDX-License-Identifier: MIT
// The sum of n numbers, added to *sum: each block adds up its share in shared memory, and
// its first warp finishes with shuffles.
//
//   echo 'grid=8 block=256 in:x sum u32:4096' >modules/reduce/functions/reduce/launch

extern "C" __global__ void reduce(const float *x, float *sum, unsigned int n)
{
	__shared__ float partial[256];
	const unsigned int me = threadIdx.x;
	float mine = 0;

	for (unsigned int i = blockIdx.x * 256 + me; i < n; i += gridDim.x * 256)
		mine += x[i];
	partial[me] = mine;
	__syncthreads();
	for (unsigned int half = 128; half >= 32; half /= 2) {
		if (me < half)
			partial[me] += partial[me + half];
		__syncthreads();
	}
	if (me < 32) {
		mine = partial[me];
		for (int distance = 16; distance; distance /= 2)
			mine += __shfl_down_sync(0xffffffff, mine, distance);
		if (me == 0)
			atomicAdd(sum, mine);
	}
}
