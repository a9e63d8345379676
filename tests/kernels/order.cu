// SPDX-License-Identifier: MIT
// Kernels that take as long as they are told, or wait for each other: what shows in which
// order kernels run, and which run side by side.

static __device__ unsigned long long now(void)
{
	unsigned long long ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

// Sets *to, but not before so many nanoseconds have gone by.
extern "C" __global__ void slow_set(int *to, int value, unsigned long long ns)
{
	const unsigned long long begin = now();

	while (now() - begin < ns)
		;
	*to = value;
}

extern "C" __global__ void add(const int *from, int number, int *to)
{
	*to = *from + number;
}

// Two of these, with `me` and `other` the other way round, end only side by side.
extern "C" __global__ void meet(volatile int *at, int me, int other)
{
	at[me] = 1;
	while (!at[other])
		;
}

struct mixed {
	char a;
	double b;
	short c[3];
};

// All that can be passed by value, one behind the other, eight bytes each.
extern "C" __global__ void values(unsigned long long *to, signed char i8,
				  unsigned char u8, short i16, unsigned short u16, int i32,
				  unsigned int u32, long long i64, unsigned long long u64,
				  unsigned short f16, unsigned short bf16, float f32,
				  double f64, struct mixed mixed)
{
	to[0] = (unsigned long long)(long long)i8;
	to[1] = u8;
	to[2] = (unsigned long long)(long long)i16;
	to[3] = u16;
	to[4] = (unsigned long long)(long long)i32;
	to[5] = u32;
	to[6] = (unsigned long long)i64;
	to[7] = u64;
	to[8] = f16;
	to[9] = bf16;
	to[10] = (unsigned long long)__float_as_uint(f32);
	to[11] = (unsigned long long)__double_as_longlong(f64);
	to[12] = (unsigned long long)mixed.a;
	to[13] = (unsigned long long)__double_as_longlong(mixed.b);
	to[14] = (unsigned long long)mixed.c[2];
}

// How a kernel was launched.
extern "C" __global__ void shape(unsigned int *to)
{
	extern __shared__ unsigned int shared[];
	unsigned int size;

	asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
	if (threadIdx.x || threadIdx.y || threadIdx.z || blockIdx.x || blockIdx.y ||
	    blockIdx.z)
		return;
	shared[size / 4 - 1] = 7;
	to[0] = gridDim.x;
	to[1] = gridDim.y;
	to[2] = gridDim.z;
	to[3] = blockDim.x;
	to[4] = blockDim.y;
	to[5] = blockDim.z;
	to[6] = size;
	to[7] = shared[size / 4 - 1];
}
