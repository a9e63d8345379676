/* SPDX-License-Identifier: MIT */
/* Instructions of threads, together and alone. */
#include "corpus.h"

#include <string.h>

CORPUS(threads);

#define LANES 32

static uint32_t lanes_in[LANES];

static uint32_t at(uint32_t lane)
{
	return lanes_in[lane % LANES];
}

static uint32_t ballot(bool (*of)(uint32_t x))
{
	uint32_t to = 0;

	for (uint32_t i = 0; i < LANES; i++)
		to |= (uint32_t)of(lanes_in[i]) << i;
	return to;
}

static bool is_odd(uint32_t x)
{
	return x & 1;
}

static bool has_two(uint32_t x)
{
	return x & 2;
}

static uint32_t same_rest(uint32_t lane)
{
	uint32_t to = 0;

	for (uint32_t i = 0; i < LANES; i++)
		to |= (uint32_t)(lanes_in[i] % 5 == lanes_in[lane] % 5) << i;
	return to;
}

/* The sum of the values of all earlier lanes. */
static uint32_t before(uint32_t lane)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < lane; i++)
		sum += lanes_in[i];
	return sum;
}

static uint32_t reduced(char how)
{
	uint32_t to = lanes_in[0];

	for (uint32_t i = 1; i < LANES; i++) {
		const uint32_t x = lanes_in[i];

		to = how == '+'	  ? to + x
		     : how == '<' ? (x < to ? x : to)
		     : how == '>' ? (x > to ? x : to)
		     : how == '&' ? to & x
		     : how == '|' ? to | x
				  : to ^ x;
	}
	return to;
}

static void shuffles_one(uint32_t lane, uint32_t *to)
{
	const uint32_t x = at(lane);
	uint32_t sums = 0;

	for (uint32_t i = 0; i < LANES; i++)
		sums += before(i);
	*to++ = at(5);
	*to++ = at(lane * 7);
	*to++ = at((lane & 24) + (lane + 3) % 8);
	*to++ = lane < 3 ? x : at(lane - 3);
	*to++ = lane % 4 < 1 ? x : at(lane - 1);
	*to++ = lane + 5 > 31 ? x : at(lane + 5);
	*to++ = lane % 16 + 2 > 15 ? x : at(lane + 2);
	*to++ = at(lane ^ 21);
	*to++ = (lane ^ 9) > (lane | 7) ? x : at(lane ^ 9);
	*to++ = at(lane ^ 1);
	*to++ = 0;
	*to++ = 1;
	*to++ = ballot(is_odd);
	*to++ = same_rest(lane);
	*to++ = UINT32_MAX;
	*to++ = 1;
	*to++ = reduced('+');
	*to++ = reduced('<') - 50;
	*to++ = reduced('>');
	*to++ = reduced('&');
	*to++ = reduced('|');
	*to++ = reduced('^');
	*to++ = UINT32_MAX;
	*to++ = lane & 1 ? at(lane ^ 2) : lane + 4 > 31 ? x : at(lane + 4);
	*to++ = lane & 1 ? ballot(has_two) & 0xaaaaaaaa : 16;
	*to++ = before(31 - lane);
	*to++ = sums;
	*to++ = (1U << lane) - 1;
	*to++ = ~((1U << lane) - 1);
}

Test(threads, shuffles_votes_and_reductions)
{
	uint32_t got[LANES][LANES], expected[LANES][LANES] = { 0 };
	CUdeviceptr from, to;

	conform_context();
	for (uint32_t i = 0; i < LANES; i++) {
		lanes_in[i] = i * i * 37 % 900 + (i == 0);
		shuffles_one(i, expected[i]);
	}
	for (uint32_t i = 0; i < LANES; i++)
		shuffles_one(i, expected[i]);
	from = corpus_put(lanes_in, sizeof(lanes_in));
	to = corpus_put(NULL, sizeof(got));
	corpus_run(corpus_kernel("threads", "shuffles"), 1, 32, (void *[]){ &from, &to });
	corpus_get(got, to, sizeof(got));
	for (uint32_t i = 0; i < LANES; i++)
		for (uint32_t k = 0; k < LANES; k++)
			cr_expect_eq(got[i][k], expected[i][k],
				     "lane %u, output %u: %08x, not %08x", i, k,
				     got[i][k], expected[i][k]);
	corpus_note("shuffles", got, sizeof(got));
}

#define ATOMIC_THREADS 4096U

static void atomics_expected(uint32_t *words, uint64_t *longs)
{
	const uint32_t n = ATOMIC_THREADS;

	words[0] = n * (n - 1) / 2;
	words[1] = 0 - n;
	words[2] = 5;
	words[3] = n - 1;
	words[4] = 1 - n;
	words[5] = 0;
	words[6] = 0;
	words[7] = 0x1ffff;
	words[9] = n % 100;
	words[10] = (50 - n % 50) % 50;
	words[11] = 1 << (n / 512);
	words[12] = 7;
	words[13] = n;
	words[14] = 0;
	words[15] = 1;
	longs[0] = (uint64_t)words[0] << 20;
	longs[1] = (uint64_t)(n - 1) << 33;
	longs[2] = 0 - ((uint64_t)(n - 1) << 33);
	longs[3] = UINT64_MAX;
	longs[5] = 1;
	longs[6] = n;
	for (uint32_t i = 0; i < n; i++) {
		words[8] ^= i;
		longs[4] ^= i * 0x100000001;
	}
}

Test(threads, atomics_lose_nothing)
{
	uint32_t words[16] = { [2] = UINT32_MAX, [6] = 0x7fffffff, [11] = 1 };
	uint32_t words_expected[16] = { 0 };
	uint64_t longs[8] = { 0 }, longs_expected[8] = { 0 };
	float number;
	double wide;
	CUdeviceptr at_words, at_longs, at_number, at_wide;

	conform_context();
	at_words = corpus_put(words, sizeof(words));
	at_longs = corpus_put(longs, sizeof(longs));
	at_number = corpus_put(NULL, sizeof(number));
	at_wide = corpus_put(NULL, sizeof(wide));
	corpus_run(corpus_kernel("threads", "atomics"), ATOMIC_THREADS / 256, 256,
		   (void *[]){ &at_words, &at_longs, &at_number, &at_wide });
	corpus_get(words, at_words, sizeof(words));
	corpus_get(longs, at_longs, sizeof(longs));
	corpus_get(&number, at_number, sizeof(number));
	corpus_get(&wide, at_wide, sizeof(wide));
	atomics_expected(words_expected, longs_expected);
	for (size_t i = 0; i < 16; i++)
		cr_expect_eq(words[i], words_expected[i], "word %zu: %x, not %x", i,
			     words[i], words_expected[i]);
	for (size_t i = 0; i < 7; i++)
		cr_expect_eq(longs[i], longs_expected[i], "long %zu: %zx, not %zx", i,
			     (size_t)longs[i], (size_t)longs_expected[i]);
	cr_expect_eq(number, 2048);
	cr_expect_eq(wide, 1024);
	corpus_note("atomics", words, sizeof(words));
}

Test(threads, of_one_warp_take_a_lock_in_turn)
{
	CUdeviceptr held, count;
	uint32_t n;

	conform_context();
	held = corpus_put(NULL, 4);
	count = corpus_put(NULL, 4);
	corpus_run(corpus_kernel("threads", "lock"), 3, 64, (void *[]){ &held, &count });
	corpus_get(&n, count, 4);
	cr_assert_eq(n, 192, "%u", n);
}

static uint32_t collatz(uint32_t in, uint32_t unchanged)
{
	uint32_t steps = 0;

	for (uint64_t x = in | 1; x != 1; steps++)
		x = x % 2 ? 3 * x + 1 : x / 2;
	switch (in % 9) {
	case 0:
		return steps + 1000;
	case 1:
		return steps * 3;
	case 2:
	case 3:
		return steps ^ 0x5555;
	case 5:
		return ~steps;
	case 6:
		return steps << 4;
	case 7:
		return unchanged;
	default:
		return steps + (in & 7);
	}
}

Test(threads, go_different_ways_and_meet_again)
{
	enum { N = 1000 };
	uint32_t in[N], out[N], n = N;
	CUdeviceptr from, to;

	conform_context();
	for (uint32_t i = 0; i < N; i++)
		in[i] = i * 7919 % 100000;
	from = corpus_put(in, sizeof(in));
	to = corpus_put(in, sizeof(in));
	corpus_run(corpus_kernel("threads", "collatz"), 8, 128,
		   (void *[]){ &from, &to, &n });
	corpus_get(out, to, sizeof(out));
	for (uint32_t i = 0; i < N; i++)
		cr_assert_eq(out[i], collatz(in[i], in[i]), "%u of %u", out[i], in[i]);
	corpus_note("collatz", out, sizeof(out));
}

static int compare(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

Test(threads, of_a_block_sort_in_dynamic_shared_memory)
{
	enum { N = 512, BLOCKS = 3 };
	uint32_t in[BLOCKS * N], out[BLOCKS * N], counts[3 * BLOCKS];
	CUdeviceptr words, at_counts;

	conform_context();
	for (uint32_t i = 0; i < BLOCKS * N; i++)
		in[i] = i * 2654435761U >> 13;
	words = corpus_put(in, sizeof(in));
	at_counts = corpus_put(NULL, sizeof(counts));
	OK(cuLaunchKernel, corpus_kernel("threads", "sort"), BLOCKS, 1, 1, N, 1, 1, 4 * N,
	   NULL, ((void *[]){ &words, &at_counts }), NULL);
	corpus_get(out, words, sizeof(out));
	corpus_get(counts, at_counts, sizeof(counts));
	for (uint32_t b = 0; b < BLOCKS; b++) {
		uint32_t odd = 0;

		qsort(in + b * N, N, sizeof(*in), compare);
		for (uint32_t i = 0; i < N; i++)
			odd += in[b * N + i] & 1;
		cr_assert_eq(counts[3 * b], odd);
		cr_assert_eq(counts[3 * b + 1], in[b * N] == 0);
		cr_assert_eq(counts[3 * b + 2], in[b * N + N - 1] < 1000000);
	}
	cr_assert(!memcmp(in, out, sizeof(in)));
}

Test(threads, of_two_warps_pass_on_over_named_barriers)
{
	uint32_t out[LANES], rounds = 100;
	CUdeviceptr to;

	conform_context();
	to = corpus_put(NULL, sizeof(out));
	corpus_run(corpus_kernel("threads", "pipeline"), 1, 64,
		   (void *[]){ &to, &rounds });
	corpus_get(out, to, sizeof(out));
	for (uint32_t i = 0; i < LANES; i++)
		cr_assert_eq(out[i], rounds * (rounds - 1) / 2 * (31 - i));
}
