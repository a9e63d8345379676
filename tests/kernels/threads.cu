// SPDX-License-Identifier: MIT
// What threads do together: shuffles, votes, matches, barriers, atomics; and what they do
// apart: branches, loops of different lengths, early ends, locks.

#include <stdint.h>

#define ALL 0xffffffffu

// 32 numbers of each lane of one warp.
extern "C" __global__ void shuffles(const uint32_t *in, uint32_t *out)
{
	const int lane = threadIdx.x;
	const uint32_t x = in[lane];
	uint32_t *to = out + 32 * lane;
	const uint64_t wide = (uint64_t)x << 32 | (uint32_t)lane;
	int k = 0, pred;

	to[k++] = __shfl_sync(ALL, x, 5);
	to[k++] = __shfl_sync(ALL, x, lane * 7);
	to[k++] = __shfl_sync(ALL, x, lane + 3, 8);
	to[k++] = __shfl_up_sync(ALL, x, 3);
	to[k++] = __shfl_up_sync(ALL, x, 1, 4);
	to[k++] = __shfl_down_sync(ALL, x, 5);
	to[k++] = __shfl_down_sync(ALL, x, 2, 16);
	to[k++] = __shfl_xor_sync(ALL, x, 21);
	to[k++] = __shfl_xor_sync(ALL, x, 9, 8);
	to[k++] = (uint32_t)(__shfl_xor_sync(ALL, wide, 1) >> 32);
	to[k++] = __all_sync(ALL, x < 100);
	to[k++] = __any_sync(ALL, x < 10);
	to[k++] = __ballot_sync(ALL, x & 1);
	to[k++] = __match_any_sync(ALL, x % 5);
	to[k++] = __match_all_sync(ALL, x / 1000, &pred);
	to[k++] = pred;
	to[k++] = __reduce_add_sync(ALL, x);
	to[k++] = __reduce_min_sync(ALL, (int)x - 50);
	to[k++] = __reduce_max_sync(ALL, x);
	to[k++] = __reduce_and_sync(ALL, x);
	to[k++] = __reduce_or_sync(ALL, x);
	to[k++] = __reduce_xor_sync(ALL, x);
	to[k++] = __activemask();
	// In two branches at once, each with its own members.
	if (lane & 1) {
		to[k] = __shfl_xor_sync(0xaaaaaaaau, x, 2);
		to[k + 1] = __ballot_sync(0xaaaaaaaau, x & 2);
	} else {
		to[k] = __shfl_down_sync(0x55555555u, x, 4);
		to[k + 1] = __popc(__activemask());
	}
	k += 2;
	// Members come to it one after the other.
	uint32_t sum = 0;
	for (int i = 0; i < lane; i++)
		sum += in[i];
	__syncwarp();
	to[k++] = __shfl_sync(ALL, sum, 31 - lane);
	to[k++] = __reduce_add_sync(ALL, sum);
	uint32_t mask_lt;
	asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(mask_lt));
	to[k++] = mask_lt;
	asm volatile("mov.u32 %0, %%lanemask_ge;" : "=r"(mask_lt));
	to[k++] = mask_lt;
	while (k < 32)
		to[k++] = 0;
}

// Every kind of atomic operation, from many blocks, where the order makes no difference.
extern "C" __global__ void atomics(uint32_t *words, unsigned long long *longs, float *numbers,
				   double *wides)
{
	__shared__ uint32_t shared[8];
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	if (threadIdx.x < 8)
		shared[threadIdx.x] = threadIdx.x == 1 ? ~0u : 0;
	__syncthreads();
	atomicAdd(&words[0], i);
	atomicSub(&words[1], 1);
	atomicMin(&words[2], i + 5);
	atomicMax(&words[3], i);
	atomicMin((int *)&words[4], -(int)i);
	atomicMax((int *)&words[5], -(int)i - 3);
	atomicAnd(&words[6], ~(1u << (i % 31)));
	atomicOr(&words[7], 1u << (i % 17));
	atomicXor(&words[8], i);
	atomicInc(&words[9], 99);
	atomicDec(&words[10], 49);
	atomicAdd(&longs[0], (unsigned long long)i << 20);
	atomicMax(&longs[1], (unsigned long long)i << 33);
	atomicMin((long long *)&longs[2], -((long long)i << 33));
	atomicOr(&longs[3], 1ull << (i % 64));
	atomicXor(&longs[4], (unsigned long long)i * 0x100000001ull);
	atomicAdd(&numbers[0], 0.5f);
	atomicAdd(&wides[0], 0.25);
	// By compare and exchange: the product of nothing but ones and twos.
	uint32_t old = words[11], seen;
	do {
		seen = old;
		old = atomicCAS(&words[11], seen, seen * (i % 512 == 0 ? 2 : 1));
	} while (old != seen);
	atomicExch(&words[12], 7);
	atomicAdd(&shared[0], 1);
	atomicAnd(&shared[1], ~(1u << (threadIdx.x % 32)));
	__syncthreads();
	if (!threadIdx.x) {
		atomicAdd(&words[13], shared[0]);
		atomicAdd(&words[14], shared[1]);
	}
	const unsigned long long was = atomicCAS(&longs[5], 0ull, 1ull);
	if (!was)
		atomicAdd(&words[15], 1);
	atomicAdd(&longs[6], 1ull);
}

// A lock that the lanes of a warp take in turn: only right where each goes on at last.
extern "C" __global__ void lock(unsigned int *held, volatile unsigned int *count)
{
	while (atomicCAS(held, 0, 1))
		;
	__threadfence();
	*count = *count + 1;
	__threadfence();
	atomicExch(held, 0);
}

// The steps that a number takes to 1, which differ from lane to lane.
extern "C" __global__ void collatz(const uint32_t *in, uint32_t *out, uint32_t n)
{
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
	uint64_t x;
	uint32_t steps = 0;

	if (i >= n)
		return;
	for (x = in[i] | 1; x != 1; steps++)
		x = x % 2 ? 3 * x + 1 : x / 2;
	switch (in[i] % 9) {
	case 0:
		steps += 1000;
		break;
	case 1:
		steps *= 3;
		break;
	case 2:
	case 3:
		steps ^= 0x5555;
		break;
	case 5:
		steps = ~steps;
		break;
	case 6:
		steps <<= 4;
		break;
	case 7:
		return;
	default:
		steps += in[i] & 7;
	}
	out[i] = steps;
}

// Sorts a block's numbers, with as many barriers as that takes; and counts with bar.red.
extern "C" __global__ void sort(uint32_t *words, uint32_t *counts)
{
	extern __shared__ uint32_t room[];
	const uint32_t i = threadIdx.x, n = blockDim.x;

	room[i] = words[blockIdx.x * n + i];
	__syncthreads();
	for (uint32_t size = 2; size <= n; size *= 2)
		for (uint32_t step = size / 2; step; step /= 2) {
			const uint32_t j = i ^ step;

			if (j > i) {
				const uint32_t a = room[i], b = room[j];

				if ((a > b) == !(i & size)) {
					room[i] = b;
					room[j] = a;
				}
			}
			__syncthreads();
		}
	words[blockIdx.x * n + i] = room[i];
	const int odd = __syncthreads_count(room[i] & 1);
	const int any = __syncthreads_or(room[i] == 0);
	const int all = __syncthreads_and(room[i] < 1000000);
	if (!i) {
		counts[3 * blockIdx.x] = odd;
		counts[3 * blockIdx.x + 1] = any;
		counts[3 * blockIdx.x + 2] = all;
	}
}

// Half of the warps give, half of them take, over named barriers.
extern "C" __global__ void pipeline(uint32_t *out, uint32_t rounds)
{
	__shared__ volatile uint32_t slot[32];
	const uint32_t lane = threadIdx.x % 32;
	uint32_t sum = 0;

	for (uint32_t i = 0; i < rounds; i++) {
		if (threadIdx.x < 32) {
			asm volatile("bar.sync 1, 64;" ::: "memory");
			slot[lane] = i * lane;
			asm volatile("bar.arrive 2, 64;" ::: "memory");
		} else {
			asm volatile("bar.arrive 1, 64;" ::: "memory");
			asm volatile("bar.sync 2, 64;" ::: "memory");
			sum += slot[31 - lane];
		}
	}
	if (threadIdx.x >= 32)
		out[lane] = sum;
}
