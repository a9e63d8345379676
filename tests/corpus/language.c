/* SPDX-License-Identifier: MIT */
/* The language's means, against the same written for the host. */
#include "corpus.h"

#include <math.h>
#include <string.h>

CORPUS(language);

struct point {
	int8_t tag;
	double x;
	int16_t y[3];
	uint32_t z;
};

static const uint32_t primes[8] = { 2, 3, 5, 7, 11, 13, 17, 19 };
static const struct point origin = { 1, 2.5, { 3, 4, 5 }, 6 };
static const uint64_t table[4] = { 0x100000000, 7, UINT64_MAX };
static const float numbers[3] = { 1.5f, -2.25f, 1e30f };
static const char *const names[3] = { "one", "two", "three" };

static uint32_t ackermann(uint32_t m, uint32_t n)
{
	if (!m)
		return n + 1;
	return n ? ackermann(m - 1, ackermann(m, n - 1)) : ackermann(m - 1, 1);
}

static struct point moved(struct point p, int by)
{
	p.x += by;
	p.y[by & 1] = (int16_t)(p.y[1] * by);
	p.z ^= (uint32_t)by;
	p.tag++;
	return p;
}

static uint64_t sorted(uint32_t x)
{
	uint64_t to = 0;

	for (uint32_t digit = 0; digit < 10; digit++)
		for (uint32_t y = x; y; y /= 10)
			if (y % 10 == digit)
				to = to * 10 + digit;
	return to;
}

static uint32_t operated(uint32_t value, uint32_t which, uint32_t by)
{
	return which == 0 ? value + by : which == 1 ? value * by : value - by;
}

static uint32_t first_digit(uint32_t x)
{
	const uint64_t digits = sorted(x);
	uint64_t first = digits;
	uint32_t n = 0, length = 0;

	for (uint32_t y = x; y; y /= 10)
		length++;
	for (uint64_t y = digits; y; y /= 10)
		n++;
	while (first > 9)
		first /= 10;
	return n < length ? 0 : (uint32_t)first;
}

static uint64_t bits_of(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static uint32_t bits_of_single(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static void language_one(struct point given, const uint32_t *in, uint32_t i, uint64_t *to)
{
	const uint32_t x = in[i];
	const struct point p = moved(given, (int)(x % 100));
	const struct point q = moved(origin, (int)(x % 3));
	const uint32_t *const four = &in[i & ~3U];
	uint64_t hash = 0xcbf29ce484222325;
	uint32_t value = x;

	*to++ = ackermann(2, x % 7);
	*to++ = (uint64_t)(int64_t)(p.x * 4);
	*to++ = (uint64_t)(int64_t)(p.y[0] + 1000 * p.y[1]);
	*to++ = p.z + (uint32_t)p.tag;
	*to++ = (uint64_t)(int64_t)(q.x * 2) + q.z + (uint64_t)q.y[2];
	*to++ = sorted(x);
	*to++ = primes[x % 8];
	*to++ = table[x % 4];
	*to++ = (uint64_t)(int64_t)(numbers[x % 2] * 8);
	*to++ = (uint64_t)names[x % 3][x % 3];
	for (uint32_t a = 0; a < 3; a++)
		value = operated(value, (x + a) % 3, a + 2);
	*to++ = value;
	*to++ = x % 2 ? x % 60 * 3 : (x % 50) * (x % 50);
	*to++ = x % 4 < 2 ? x : x % 4 == 2 ? primes[x % 8] : first_digit(x);
	*to++ = 1 + 2 + 4;
	*to++ = (four[0] ^ (four[1] + four[2] - four[3]));
	*to++ = 1 | (uint64_t)(uint16_t)x << 16 | (uint64_t)3 << 32 | (uint64_t)4 << 48;
	*to++ = (uint64_t)(int64_t)(int8_t)x + (uint16_t)x;
	for (uint32_t a = 0; a < 4; a++)
		hash = (hash ^ (x >> (8 * a) & 0xff)) * 0x100000001b3;
	*to++ = hash;
	*to++ = bits_of((double)x / 3.0 + sqrt((double)x));
	*to++ = bits_of_single((float)x / 7.0f - sqrtf((float)(x & 0xffff)));
	*to++ = hash % (x | 1) + (uint64_t)((int64_t)hash / (int64_t)(x | 1));
}

Test(language, gives_what_the_host_gives)
{
	enum { N = 640, N_OUT = 24 };
	struct point given = { 7, -3.75, { 8, -9, 10 }, 0xdeadbeef };
	static uint64_t got[N][N_OUT], expected[N][N_OUT];
	uint32_t in[N], n = N;
	CUdeviceptr from, to;

	conform_context();
	for (uint32_t i = 0; i < N; i++)
		in[i] = i * 2654435761U >> (i % 24);
	from = corpus_put(in, sizeof(in));
	to = corpus_put(NULL, sizeof(got));
	corpus_run(corpus_kernel("language", "language"), N / 64, 64,
		   (void *[]){ &given, &from, &to, &n });
	corpus_get(got, to, sizeof(got));
	for (uint32_t i = 0; i < N; i++) {
		language_one(given, in, i, expected[i]);
		for (uint32_t k = 0; k < N_OUT; k++)
			cr_expect_eq(got[i][k], expected[i][k],
				     "output %u of %u: %zx, not %zx", k, in[i],
				     (size_t)got[i][k], (size_t)expected[i][k]);
	}
	corpus_note("language", got, sizeof(got));
}
