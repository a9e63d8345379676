// SPDX-License-Identifier: MIT
// Kernels that go wrong, each in its own way. A fault ends the worker that ran the
// kernel, and loses nothing.

#include <cassert>

// Stores where nothing is.
extern "C" __global__ void wild(unsigned long long address)
{
	*(volatile int *)address = 1;
}

// Stores a word at an address that is no multiple of four.
extern "C" __global__ void misaligned(char *at)
{
	*(volatile int *)(at + 1) = 1;
}

extern "C" __global__ void trap(void)
{
	__trap();
}

extern "C" __global__ void failing_assert(int number)
{
	assert(number == 42);
}

// Never ends, unless somebody stores something there.
extern "C" __global__ void endless(volatile int *flag)
{
	while (!*flag)
		;
}

// Reads and writes past the end of shared memory.
extern "C" __global__ void wild_shared(int offset)
{
	__shared__ int room[32];

	((volatile int *)room)[offset] = 1;
}

// Calls itself for ever.
__device__ __noinline__ int deeper(volatile int *at, int n)
{
	volatile int room[64];

	room[n & 63] = *at;
	return deeper(at, n + 1) + room[n & 31];
}

extern "C" __global__ void bottomless(int *at)
{
	*at = deeper(at, *at);
}
