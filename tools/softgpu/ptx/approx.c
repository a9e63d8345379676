/* SPDX-License-Identifier: MIT */
/*
 * Approximate maths. The last bits of hardware are unknown; here a result is the exact
 * result, rounded, which lies within every documented error.
 */
#include "number.h"
#include "table.h"
#include "warp.h"

#define EACH_APPROX(name, expression)                                                    \
	static void name##_approx(struct warp *warp, const struct op *op, uint32_t mask) \
	{                                                                                \
		const uint64_t *source = warp_source(warp, op, 0);                       \
		const uint32_t flags = op->mods.flags;                                   \
		uint64_t *to = warp_to(warp, op);                                        \
                                                                                         \
		EACH_LANE(i, mask)                                                       \
		{                                                                        \
			const double a = (double)single_value((uint32_t)source[i],       \
							      flags & FLAG_FTZ);         \
			to[i] = single_bits((float)(expression), flags);                 \
		}                                                                        \
	}

EACH_APPROX(rcp, 1 / a)
EACH_APPROX(sqrt, sqrt(a))
EACH_APPROX(rsqrt, 1 / sqrt(a))
EACH_APPROX(sin, sin(a))
EACH_APPROX(cos, cos(a))
EACH_APPROX(ex2, exp2(a))
EACH_APPROX(lg2, log2(a))
EACH_APPROX(tanh, tanh(a))

/* Multiplies with the reciprocal, which is 0 for the largest divisors. */
static double quotient(const struct op *op, double a, double b)
{
	if (op->mods.flags & FLAG_APPROX && fabs(b) > 0x1p126 && isfinite(b))
		return isinf(a) || isnan(a) ? (double)NAN
					    : copysign(0, a) * copysign(1, b);
	return a / b;
}

static void div_approx(struct warp *warp, const struct op *op, uint32_t mask)
{
	const bool ftz = op->mods.flags & FLAG_FTZ;

	EACH_LANE(i, mask)
	{
		const float a = single_value((uint32_t)warp_source(warp, op, 0)[i], ftz);
		const float b = single_value((uint32_t)warp_source(warp, op, 1)[i], ftz);

		warp_to(warp, op)[i] = single_bits(
			(float)quotient(op, (double)a, (double)b), op->mods.flags);
	}
}

#define HIGH_WORD 0xffffffff00000000

/* Of the high word only, flushing what is subnormal. */
static double gross(uint64_t bits, double (*of)(double))
{
	uint64_t result;

	bits &= HIGH_WORD;
	if (!(bits & 0x7ff0000000000000))
		bits &= (uint64_t)1 << 63;
	result = double_bits(of(double_value(bits)));
	if (!(result & 0x7ff0000000000000))
		result &= (uint64_t)1 << 63;
	if ((result & INT64_MAX) > 0x7ff0000000000000)
		return double_value(0x7fffffff00000000);
	return double_value(result & HIGH_WORD);
}

static double reciprocal(double value)
{
	return 1 / value;
}

static double reciprocal_root(double value)
{
	return 1 / sqrt(value);
}

static void rcp_gross(struct warp *warp, const struct op *op, uint32_t mask)
{
	EACH_LANE(i, mask)
	warp_to(warp, op)[i] =
		double_bits(gross(warp_source(warp, op, 0)[i], reciprocal));
}

static void rsqrt_gross(struct warp *warp, const struct op *op, uint32_t mask)
{
	EACH_LANE(i, mask)
	warp_to(warp, op)[i] =
		double_bits(gross(warp_source(warp, op, 0)[i], reciprocal_root));
}

static void rsqrt_f64(struct warp *warp, const struct op *op, uint32_t mask)
{
	EACH_LANE(i, mask)
	warp_to(warp, op)[i] =
		double_bits(reciprocal_root(double_value(warp_source(warp, op, 0)[i])));
}

#define F32	TYPE_BIT(TYPE_F32)
#define F64	TYPE_BIT(TYPE_F64)
#define FLUSHED GROUP_FTZ

/* clang-format off */
static const struct instruction instructions[] = {
	{ "rcp.approx", "da", FLUSHED, .handler = rcp_approx, .types = F32 },
	{ "sqrt.approx", "da", FLUSHED, .handler = sqrt_approx, .types = F32 },
	{ "rsqrt.approx", "da", FLUSHED, .handler = rsqrt_approx, .types = F32 },
	{ "sin.approx", "da", FLUSHED, .handler = sin_approx, .types = F32 },
	{ "cos.approx", "da", FLUSHED, .handler = cos_approx, .types = F32 },
	{ "ex2.approx", "da", FLUSHED, .handler = ex2_approx, .types = F32 },
	{ "lg2.approx", "da", FLUSHED, .handler = lg2_approx, .types = F32 },
	{ "tanh.approx", "da", .handler = tanh_approx, .types = F32 },
	{ "div", "daa", GROUP_APPROX | FLUSHED, GROUP_APPROX, .handler = div_approx, .types = F32 },
	{ "rcp.approx.ftz", "da", .handler = rcp_gross, .types = F64 },
	{ "rsqrt.approx.ftz", "da", .handler = rsqrt_gross, .types = F64 },
	{ "rsqrt.approx", "da", .handler = rsqrt_f64, .types = F64 },
};
/* clang-format on */

FAMILY(approx);
