// SPDX-License-Identifier: MIT
// What the language has: calls, recursion, structs by value, local arrays, constants,
// pointers to functions, to every kind of memory.

#include <stdint.h>

struct point {
	int8_t tag;
	double x;
	int16_t y[3];
	uint32_t z;
};

__constant__ uint32_t primes[8] = { 2, 3, 5, 7, 11, 13, 17, 19 };
__constant__ struct point origin = { 1, 2.5, { 3, 4, 5 }, 6 };
__device__ uint64_t table[4] = { 0x100000000ull, 7, ~0ull };
__device__ float numbers[3] = { 1.5f, -2.25f, 1e30f };
__device__ const char *const names[3] = { "one", "two", "three" };

__device__ __noinline__ uint32_t ackermann(uint32_t m, uint32_t n)
{
	if (!m)
		return n + 1;
	return n ? ackermann(m - 1, ackermann(m, n - 1)) : ackermann(m - 1, 1);
}

__device__ __noinline__ struct point moved(struct point p, int by)
{
	p.x += by;
	p.y[by & 1] = (int16_t)(p.y[1] * by);
	p.z ^= (uint32_t)by;
	p.tag++;
	return p;
}

__device__ __noinline__ void swap(uint32_t *a, uint32_t *b)
{
	const uint32_t c = *a;

	*a = *b;
	*b = c;
}

__device__ __noinline__ uint32_t plus(uint32_t a, uint32_t b)
{
	return a + b;
}

__device__ __noinline__ uint32_t times(uint32_t a, uint32_t b)
{
	return a * b;
}

__device__ __noinline__ uint32_t minus(uint32_t a, uint32_t b)
{
	return a - b;
}

typedef uint32_t operation(uint32_t a, uint32_t b);
__device__ operation *const operations[3] = { plus, times, minus };

struct shape {
	__device__ virtual uint32_t area(void) const = 0;
};

struct square : shape {
	uint32_t side;
	__device__ square(uint32_t s) : side(s) {}
	__device__ uint32_t area(void) const override { return side * side; }
};

struct stripe : shape {
	uint32_t length;
	__device__ stripe(uint32_t l) : length(l) {}
	__device__ uint32_t area(void) const override { return length * 3; }
};

// 24 numbers a thread.
extern "C" __global__ void language(struct point given, const uint32_t *in, uint64_t *out,
				    uint32_t n)
{
	__shared__ uint32_t room[64];
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
	uint64_t *to = out + 24 * i;
	uint32_t digits[16], length = 0, x;
	int k = 0;

	if (i >= n)
		return;
	x = in[i];
	to[k++] = ackermann(2, x % 7);
	const struct point p = moved(given, (int)(x % 100));
	to[k++] = (uint64_t)(int64_t)(p.x * 4);
	to[k++] = (uint64_t)(int64_t)(p.y[0] + 1000 * p.y[1]);
	to[k++] = p.z + (uint32_t)p.tag;
	const struct point q = moved(origin, (int)(x % 3));
	to[k++] = (uint64_t)(int64_t)(q.x * 2) + q.z + (uint64_t)q.y[2];
	// An array that is indexed by what only the thread knows.
	for (uint32_t y = x; y; y /= 10)
		digits[length++] = y % 10;
	for (uint32_t a = 0; a + 1 < length; a++)
		for (uint32_t b = a + 1; b < length; b++)
			if (digits[a] > digits[b])
				swap(&digits[a], &digits[b]);
	uint64_t sorted = 0;
	for (uint32_t a = 0; a < length; a++)
		sorted = sorted * 10 + digits[a];
	to[k++] = sorted;
	to[k++] = primes[x % 8];
	to[k++] = table[x % 4];
	to[k++] = (uint64_t)(int64_t)(numbers[x % 2] * 8);
	to[k++] = (uint64_t)names[x % 3][x % 3];
	uint32_t value = x;
	for (uint32_t a = 0; a < 3; a++)
		value = operations[(x + a) % 3](value, a + 2);
	to[k++] = value;
	const square s(x % 50);
	const stripe t(x % 60);
	const shape *const shapes[2] = { &s, &t };
	to[k++] = shapes[x % 2]->area();
	// Generic pointers: which memory it is only shows when it runs.
	room[threadIdx.x] = x;
	__syncthreads();
	const uint32_t *const places[4] = { &room[threadIdx.x], &in[i], &primes[x % 8], &digits[0] };
	if (!length)
		digits[0] = 0;
	to[k++] = *places[x % 4];
	to[k++] = __isShared(places[0]) + 2 * __isGlobal(in) + 4 * __isLocal(places[3]) +
		  8 * __isShared(in);
	const uint4 four = *(const uint4 *)&in[i & ~3u];
	to[k++] = four.x ^ four.y + four.z - four.w;
	*(ushort4 *)&to[k++] = make_ushort4(1, (unsigned short)x, 3, 4);
	*(volatile int8_t *)&to[k] = (int8_t)x;
	*((volatile int16_t *)&to[k] + 1) = (int16_t)x;
	to[k] = (uint64_t)(int64_t) * (volatile int8_t *)&to[k] +
		(uint64_t) * ((volatile uint16_t *)&to[k] + 1);
	k++;
	uint64_t hash = 0xcbf29ce484222325ull;
	for (uint32_t a = 0; a < 4; a++)
		hash = (hash ^ (x >> (8 * a) & 0xff)) * 0x100000001b3ull;
	to[k++] = hash;
	to[k++] = (uint64_t)__double_as_longlong((double)x / 3.0 + sqrt((double)x));
	to[k++] = (uint64_t)__float_as_uint((float)x / 7.0f - sqrtf((float)(x & 0xffff)));
	to[k++] = hash % (x | 1) + (int64_t)hash / (int64_t)(x | 1);
	while (k < 24)
		to[k++] = 0;
}
