/* SPDX-License-Identifier: MIT */
/*
 * The mathematical library, within the errors that NVIDIA documents for it (CUDA C++
 * Programming Guide, Mathematical Functions), in units of the last place; and approximate
 * instructions, whose error may be absolute.
 */
#include "corpus.h"

#include <math.h>

CORPUS(maths);

#define N	 2048
#define N_SINGLE 32
#define N_DOUBLE 20

struct bound {
	const char *name;
	long double (*of)(long double a, long double b);
	double ulps;
	double absolute; /* is enough too */
};

#define OF(name, expression)                                       \
	static long double name##_of(long double a, long double b) \
	{                                                          \
		(void)a;                                           \
		(void)b;                                           \
		return expression;                                 \
	}
OF(sin, sinl(a))
OF(cos, cosl(a))
OF(tan, tanl(a))
OF(exp, expl(a))
OF(exp2, exp2l(a))
OF(log, logl(b))
OF(log2, log2l(b))
OF(log10, log10l(b))
OF(pow, powl(b, a))
OF(erf, erfl(a))
OF(tanh, tanhl(a))
OF(atan2, atan2l(a, b))
OF(sqrt, sqrtl(b))
OF(rsqrt, 1 / sqrtl(b))
OF(cbrt, cbrtl(a))
OF(hypot, hypotl(a, b))
OF(fmod, fmodl(a, b))
OF(floor, floorl(a))
OF(rint, rintl(a))
OF(div, a / b)
OF(lgamma, lgammal(b))
OF(tgamma, tgammal(b))
OF(asinh, asinhl(a))
OF(sum_product, a + a * b)
OF(product, a *b)

/* Halves have 11 bits and bf16 8, where a single has 24. */
#define HALF_ULPS   ((double)(1 << 13) * 2)
#define BFLOAT_ULPS ((double)(1 << 16))

static const struct bound singles[N_SINGLE] = {
	{ "sinf", sin_of, 2, 0 },
	{ "cosf", cos_of, 2, 0 },
	{ "tanf", tan_of, 4, 0 },
	{ "expf", exp_of, 2, 0 },
	{ "exp2f", exp2_of, 2, 0 },
	{ "logf", log_of, 1, 0 },
	{ "log2f", log2_of, 1, 0 },
	{ "log10f", log10_of, 2, 0 },
	{ "powf", pow_of, 4, 0 },
	{ "erff", erf_of, 2, 0 },
	{ "tanhf", tanh_of, 2, 0 },
	{ "atan2f", atan2_of, 3, 0 },
	{ "sqrtf", sqrt_of, 0, 0 },
	{ "rsqrtf", rsqrt_of, 2, 0 },
	{ "cbrtf", cbrt_of, 1, 0 },
	{ "hypotf", hypot_of, 3, 0 },
	{ "fmodf", fmod_of, 0, 0 },
	{ "floorf", floor_of, 0, 0 },
	{ "rintf", rint_of, 0, 0 },
	{ "a / b", div_of, 0, 0 },
	{ "__sinf", sin_of, 2, 0x1p-21 },
	{ "__cosf", cos_of, 2, 0x1p-21 },
	{ "__expf", exp_of, 6, 0 },
	{ "__logf", log_of, 3, 0x1p-21 },
	{ "__fdividef", div_of, 2, 0 },
	{ "__powf", pow_of, 64, 0 },
	{ "lgammaf", lgamma_of, 6, 0x1p-22 },
	{ "asinhf", asinh_of, 3, 0 },
	{ "half a + a * b", sum_product_of, 4 * HALF_ULPS, 0x1p-7 },
	{ "bfloat a + a * b", sum_product_of, 4 * BFLOAT_ULPS, 0x1p-4 },
	{ "hexp", exp_of, 4 * HALF_ULPS, 0 },
	{ "half2 a * b", product_of, 2 * HALF_ULPS, 0 },
};

static const struct bound doubles[N_DOUBLE] = {
	{ "sin", sin_of, 2, 0 },   { "cos", cos_of, 2, 0 },
	{ "tan", tan_of, 2, 0 },   { "exp", exp_of, 1, 0 },
	{ "exp2", exp2_of, 1, 0 }, { "log", log_of, 1, 0 },
	{ "log2", log2_of, 1, 0 }, { "log10", log10_of, 1, 0 },
	{ "pow", pow_of, 2, 0 },   { "erf", erf_of, 2, 0 },
	{ "tanh", tanh_of, 2, 0 }, { "atan2", atan2_of, 2, 0 },
	{ "sqrt", sqrt_of, 0, 0 }, { "rsqrt", rsqrt_of, 1, 0 },
	{ "cbrt", cbrt_of, 1, 0 }, { "hypot", hypot_of, 2, 0 },
	{ "fmod", fmod_of, 0, 0 }, { "floor", floor_of, 0, 0 },
	{ "a / b", div_of, 0, 0 }, { "tgamma", tgamma_of, 10, 0 },
};

/* -3 to 3, and 0.1 to 10. */
static double first(size_t i)
{
	return -3 + 6 * ((double)i + 0.37) / N;
}

static double second(size_t i)
{
	return 0.1 + 9.9 * (double)(i * 769 % N) / N;
}

/* How far off, in units of the last place of a number of so many bits. */
static double distance(long double got, long double exact, int bits)
{
	const int exponent = exact != 0 ? ilogbl(exact) : -126;
	const long double ulp = ldexpl(1, exponent - bits + 1);

	return (double)(fabsl(got - exact) / ulp);
}

/* Rounding the exact result is another half. */
static bool is_within(const struct bound *bound, long double got, long double exact,
		      int bits)
{
	return distance(got, exact, bits) <= bound->ulps + 0.5 ||
	       fabsl(got - exact) <= (long double)bound->absolute;
}

Test(maths, of_32_bits_is_within_its_errors)
{
	static float x[N], y[N], out[N][N_SINGLE];
	size_t n_wrong[N_SINGLE] = { 0 };
	CUdeviceptr at_x, at_y, to;
	uint32_t n = N;

	conform_context();
	for (size_t i = 0; i < N; i++) {
		x[i] = (float)first(i);
		y[i] = (float)second(i);
	}
	at_x = corpus_put(x, sizeof(x));
	at_y = corpus_put(y, sizeof(y));
	to = corpus_put(NULL, sizeof(out));
	corpus_run(corpus_kernel("maths", "single_maths"), N / 128, 128,
		   (void *[]){ &at_x, &at_y, &to, &n });
	corpus_get(out, to, sizeof(out));
	for (size_t i = 0; i < N; i++)
		for (size_t k = 0; k < N_SINGLE; k++) {
			const long double exact = singles[k].of(x[i], y[i]);

			if (is_within(&singles[k], out[i][k], exact, 24) || n_wrong[k]++)
				continue;
			cr_expect_fail("%s of %a, %a: %a, not %La, %g ulps",
				       singles[k].name, (double)x[i], (double)y[i],
				       (double)out[i][k], exact,
				       distance(out[i][k], exact, 24));
		}
}

Test(maths, of_64_bits_is_within_its_errors)
{
	static double x[N], y[N], out[N][N_DOUBLE];
	size_t n_wrong[N_DOUBLE] = { 0 };
	CUdeviceptr at_x, at_y, to;
	uint32_t n = N;

	conform_context();
	for (size_t i = 0; i < N; i++) {
		x[i] = first(i);
		y[i] = second(i);
	}
	at_x = corpus_put(x, sizeof(x));
	at_y = corpus_put(y, sizeof(y));
	to = corpus_put(NULL, sizeof(out));
	corpus_run(corpus_kernel("maths", "double_maths"), N / 128, 128,
		   (void *[]){ &at_x, &at_y, &to, &n });
	corpus_get(out, to, sizeof(out));
	for (size_t i = 0; i < N; i++)
		for (size_t k = 0; k < N_DOUBLE; k++) {
			const long double exact = doubles[k].of(x[i], y[i]);

			if (is_within(&doubles[k], out[i][k], exact, 53) || n_wrong[k]++)
				continue;
			cr_expect_fail("%s of %a, %a: %a, not %La, %g ulps",
				       doubles[k].name, x[i], y[i], out[i][k], exact,
				       distance(out[i][k], exact, 53));
		}
}
