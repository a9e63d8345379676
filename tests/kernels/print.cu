// SPDX-License-Identifier: MIT
// What kernels print is in owners/UID/output.

#include <cstdio>

extern "C" __global__ void greet(int number)
{
	printf("block %u thread %u: %d %s %5.2f %llx %c%%\n", blockIdx.x, threadIdx.x,
	       number, "words", number / 4.0, 0x123456789abcULL, 'c');
}

extern "C" __global__ void put(int byte)
{
	printf("before%cafter\n", byte);
}
