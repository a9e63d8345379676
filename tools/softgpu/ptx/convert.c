/* SPDX-License-Identifier: MIT */
/*
 * cvt: every number is taken apart and put together again in the other type, so that the
 * same code serves all pairs, all rounding modes and all saturation.
 */
#include "number.h"
#include "table.h"
#include "warp.h"

static const struct format *format_of(enum type type)
{
	switch (type) {
	case TYPE_F16:
	case TYPE_F16X2:
		return &format_half;
	case TYPE_BF16:
	case TYPE_BF16X2:
		return &format_bfloat;
	case TYPE_F32:
		return &format_single;
	default:
		return &format_double;
	}
}

static uint64_t ones(unsigned int bits)
{
	return bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

static int64_t extended(uint64_t value, enum type type)
{
	const unsigned int unused = 64 - type_bits(type);

	return type_is_signed(type) ? (int64_t)(value << unused) >> unused
				    : (int64_t)(value & ones(type_bits(type)));
}

/* Between integers: cut, or clamped with .sat. */
static uint64_t integer_to_integer(const struct op *op, uint64_t value)
{
	const int64_t number = extended(value, op->from);
	const bool negative = type_is_signed(op->from) && number < 0;
	const unsigned int bits = type_bits(op->type);
	const bool is_signed = type_is_signed(op->type);
	const uint64_t most = is_signed ? ones(bits - 1) : ones(bits);

	if (!(op->mods.flags & FLAG_SAT))
		return (uint64_t)number;
	if (!negative)
		return MIN((uint64_t)number, most);
	if (!is_signed)
		return 0;
	return number < -(int64_t)most - 1 ? 0 - most - 1 : (uint64_t)number;
}

/*
 * A value out of range becomes the nearest value in range; a NaN becomes 0, or the top
 * bit.
 */
static uint64_t real_to_integer(const struct op *op, const struct real *real)
{
	const unsigned int bits = type_bits(op->type);
	const bool is_signed = type_is_signed(op->type);
	const struct real whole = real_integral(real, op->mods.rounding);
	uint64_t most = is_signed ? ones(bits - 1) : ones(bits);
	uint64_t magnitude;

	if (real->is_nan)
		return op->from == TYPE_F64 || bits == 64 ? (uint64_t)1 << (bits - 1) : 0;
	if (real->negative)
		most = is_signed ? most + 1 : 0;
	if (whole.is_infinite || whole.exponent > 0)
		magnitude = most;
	else
		magnitude =
			whole.exponent > -64 ? whole.significand >> -whole.exponent : 0;
	magnitude = MIN(magnitude, most);
	return real->negative ? 0 - magnitude : magnitude;
}

static struct real real_from(const struct op *op, uint64_t bits)
{
	const int64_t number = extended(bits, op->from);

	if (type_is_float(op->from)) {
		if (op->from == TYPE_F32 && op->mods.flags & FLAG_FTZ &&
		    !(bits & 0x7f800000))
			bits &= SIGN_32;
		return real_decode(format_of(op->from), bits);
	}
	if (type_is_signed(op->from) && number < 0)
		return real_integer(0 - (uint64_t)number, true);
	return real_integer((uint64_t)number, false);
}

/* .sat: from 0 to 1, and 0 for what is no number. */
static struct real real_saturate(const struct real *real)
{
	if (real->is_nan || real->negative)
		return (struct real){ 0 };
	if (real->is_infinite || (real->significand && real->exponent + 63 >= 0))
		return real_integer(1, false);
	return *real;
}

static uint64_t real_to_float(const struct op *op, const struct real *from)
{
	const uint32_t flags = op->mods.flags;
	struct real real = *from;
	uint64_t bits;

	if (flags & FLAG_INTEGRAL)
		real = real_integral(&real, op->mods.rounding);
	if (flags & FLAG_SAT)
		real = real_saturate(&real);
	if (flags & FLAG_RELU && real.negative && !real.is_nan)
		real = (struct real){ 0 };
	bits = real_encode(format_of(op->type), &real, op->mods.rounding);
	if (op->type == TYPE_F32 && flags & FLAG_FTZ && !(bits & 0x7f800000))
		bits &= SIGN_32;
	return bits;
}

/*
 * To and from f64 a NaN keeps the sign and as much of the fraction as there is room for,
 * and becomes quiet. All other conversions, and those of an f32 flushed first, give the
 * canonical NaN.
 */
static bool nan_is_kept(const struct op *op)
{
	if (op->mods.flags & FLAG_SAT)
		return false;
	if (op->from == TYPE_F64)
		return true;
	return op->type == TYPE_F64 && !(op->mods.flags & FLAG_FTZ);
}

static uint64_t nan_resized(const struct op *op, uint64_t bits)
{
	const struct format *from = format_of(op->from), *to = format_of(op->type);
	const unsigned int sign_at = from->precision + from->exponent_bits - 1;
	const uint64_t top = ones(to->exponent_bits + 1) << (to->precision - 2);
	const uint64_t fraction = bits << (65 - from->precision) >> (65 - to->precision);

	return (bits >> sign_at & 1) << (to->precision + to->exponent_bits - 1) | top |
	       fraction;
}

/* The one NaN of f32, in more bits. */
static uint64_t nan_flushed(void)
{
	return ones(34) << 29;
}

static uint64_t nan_to_float(const struct op *op, const struct real *real, uint64_t bits)
{
	if (nan_is_kept(op))
		return nan_resized(op, bits);
	if (op->type == TYPE_F64 && !(op->mods.flags & FLAG_SAT))
		return nan_flushed();
	return real_to_float(op, real);
}

static uint64_t convert(const struct op *op, uint64_t bits)
{
	struct real real;

	if (!type_is_float(op->type) && !type_is_float(op->from))
		return integer_to_integer(op, bits);
	real = real_from(op, bits);
	if (real.is_nan && type_is_float(op->type))
		return nan_to_float(op, &real, bits);
	return type_is_float(op->type) ? real_to_float(op, &real)
				       : real_to_integer(op, &real);
}

/* Into a register that may be wider than the type. */
static uint64_t widened(const struct op *op, uint64_t value)
{
	value &= ones(type_bits(op->type));
	if (type_is_signed(op->type))
		value = (uint64_t)extended(value, op->type);
	return value & ones(op->register_bits);
}

static void cvt(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t *from = warp_source(warp, op, 0);
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	to[i] = widened(op, convert(op, from[i]));
}

/* Two into one: the first is the high half. */
static void cvt_pair(struct warp *warp, const struct op *op, uint32_t mask)
{
	const uint64_t *high = warp_source(warp, op, 0), *low = warp_source(warp, op, 1);
	uint64_t *to = warp_to(warp, op);

	EACH_LANE(i, mask)
	to[i] = convert(op, high[i]) << 16 | convert(op, low[i]);
}

/* A single with the low 13 bits of its fraction rounded away; of a NaN they are cut. */
static void cvt_tf32(struct warp *warp, const struct op *op, uint32_t mask)
{
	static const struct format format = { 11, 8 };

	EACH_LANE(i, mask)
	{
		const uint64_t from = warp_source(warp, op, 0)[i];
		const struct real real = real_decode(&format_single, from);
		const uint64_t bits = real_encode(&format, &real, op->mods.rounding);

		warp_to(warp, op)[i] = (real.is_nan ? from >> 13 : bits) << 13;
	}
}

#define INTEGERS                                                        \
	(TYPE_BIT(TYPE_U8) | TYPE_BIT(TYPE_S8) | TYPE_BIT(TYPE_U16) |   \
	 TYPE_BIT(TYPE_S16) | TYPE_BIT(TYPE_U32) | TYPE_BIT(TYPE_S32) | \
	 TYPE_BIT(TYPE_U64) | TYPE_BIT(TYPE_S64))
#define F32    TYPE_BIT(TYPE_F32)
#define FLOATS (TYPE_BIT(TYPE_F16) | TYPE_BIT(TYPE_BF16) | F32 | TYPE_BIT(TYPE_F64))
#define PAIRS  (TYPE_BIT(TYPE_F16X2) | TYPE_BIT(TYPE_BF16X2))
#define HALVES (TYPE_BIT(TYPE_F16) | TYPE_BIT(TYPE_BF16))
#define COMMON (GROUP_FTZ | GROUP_SAT)

/* clang-format off */
static const struct instruction instructions[] = {
	{ "cvt", "DF", GROUP_SAT, .handler = cvt, .types = INTEGERS, .from = INTEGERS },
	{ "cvt", "DF", COMMON | GROUP_INTEGRAL, GROUP_INTEGRAL,
	  .handler = cvt, .types = INTEGERS | FLOATS, .from = FLOATS },
	{ "cvt", "DF", GROUP_ROUND | COMMON, .handler = cvt,
	  .types = FLOATS, .from = INTEGERS | FLOATS },
	{ "cvt", "DF", GROUP_ROUND | GROUP_RELU, GROUP_ROUND | GROUP_RELU,
	  .handler = cvt, .types = HALVES, .from = F32 },
	{ "cvt", "dff", GROUP_ROUND | GROUP_RELU, GROUP_ROUND,
	  .handler = cvt_pair, .types = PAIRS, .from = F32 },
	{ "cvt", "df", GROUP_ROUND, GROUP_ROUND, .handler = cvt_tf32,
	  .types = TYPE_BIT(TYPE_TF32), .from = F32 },
};
/* clang-format on */

FAMILY(convert);
