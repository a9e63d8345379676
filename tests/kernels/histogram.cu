// SPDX-License-Identifier: MIT
// How often each byte occurs: counted in shared memory, then added to the whole.
//
//   echo 'grid=8 block=256 in:text counts u32:65536' \
//       >modules/histogram/functions/histogram/launch

extern "C" __global__ void histogram(const unsigned char *bytes, unsigned int *counts,
				     unsigned int n)
{
	__shared__ unsigned int mine[256];

	mine[threadIdx.x] = 0;
	__syncthreads();
	for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
	     i += gridDim.x * blockDim.x)
		atomicAdd(&mine[bytes[i]], 1);
	__syncthreads();
	atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}
