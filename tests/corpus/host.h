/* SPDX-License-Identifier: MIT */
/*
 * The results of PTX's instructions, in plain C. This file follows the description of PTX
 * and not the interpreter, so both can be compared.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

__extension__ typedef __int128 i128;
__extension__ typedef unsigned __int128 u128;

static inline uint64_t distance_u(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static inline uint64_t distance_s(int64_t a, int64_t b)
{
	return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

static inline uint32_t sad_u32(uint32_t a, uint32_t b, uint32_t c)
{
	return c + (uint32_t)distance_u(a, b);
}

static inline uint32_t sad_s32(uint32_t a, uint32_t b, uint32_t c)
{
	return c + (uint32_t)distance_s((int32_t)a, (int32_t)b);
}

static inline uint64_t sad_u64(uint64_t a, uint64_t b, uint64_t c)
{
	return c + distance_u(a, b);
}

static inline uint64_t sad_s64(uint64_t a, uint64_t b, uint64_t c)
{
	return c + distance_s((int64_t)a, (int64_t)b);
}

static inline uint16_t sad_s16(uint16_t a, uint16_t b, uint16_t c)
{
	return (uint16_t)(c + distance_s((int16_t)a, (int16_t)b));
}

/* 24 bits, as a number of 64. */
static inline int64_t low_24(uint32_t a, bool is_signed)
{
	const int64_t low = a & 0xffffff;

	return is_signed && low >= 0x800000 ? low - 0x1000000 : low;
}

static inline uint32_t mul24_lo_u32(uint32_t a, uint32_t b)
{
	return (uint32_t)(low_24(a, false) * low_24(b, false));
}

static inline uint32_t mul24_lo_s32(uint32_t a, uint32_t b)
{
	return (uint32_t)(low_24(a, true) * low_24(b, true));
}

static inline uint32_t mul24_hi_u32(uint32_t a, uint32_t b)
{
	return (uint32_t)((uint64_t)(low_24(a, false) * low_24(b, false)) >> 16);
}

static inline uint32_t mul24_hi_s32(uint32_t a, uint32_t b)
{
	return (uint32_t)((uint64_t)(low_24(a, true) * low_24(b, true)) >> 16);
}

static inline uint32_t mad24_lo_s32(uint32_t a, uint32_t b, uint32_t c)
{
	return mul24_lo_s32(a, b) + c;
}

static inline uint32_t mad24_hi_u32(uint32_t a, uint32_t b, uint32_t c)
{
	return mul24_hi_u32(a, b) + c;
}

static inline uint32_t mul_hi_u32(uint32_t a, uint32_t b)
{
	return (uint32_t)((uint64_t)a * b / 4294967296U);
}

static inline uint32_t mul_hi_s32(uint32_t a, uint32_t b)
{
	return (uint32_t)((uint64_t)((int64_t)(int32_t)a * (int32_t)b) >> 32);
}

static inline uint64_t mul_hi_u64(uint64_t a, uint64_t b)
{
	return (uint64_t)((u128)a * b >> 64);
}

static inline uint64_t mul_hi_s64(uint64_t a, uint64_t b)
{
	return (uint64_t)((u128)((i128)(int64_t)a * (int64_t)b) >> 64);
}

static inline uint16_t mul_hi_s16(uint16_t a, uint16_t b)
{
	return (uint16_t)((uint32_t)((int16_t)a * (int16_t)b) >> 16);
}

static inline uint32_t mad_hi_u32(uint32_t a, uint32_t b, uint32_t c)
{
	return mul_hi_u32(a, b) + c;
}

static inline uint32_t mad_hi_s32(uint32_t a, uint32_t b, uint32_t c)
{
	return mul_hi_s32(a, b) + c;
}

static inline uint32_t clamped(int64_t value)
{
	if (value > INT32_MAX)
		return INT32_MAX;
	return value < INT32_MIN ? (uint32_t)INT32_MIN : (uint32_t)value;
}

static inline uint32_t mad_hi_sat_s32(uint32_t a, uint32_t b, uint32_t c)
{
	return clamped((int64_t)(int32_t)mul_hi_s32(a, b) + (int32_t)c);
}

static inline uint64_t mad_hi_u64(uint64_t a, uint64_t b, uint64_t c)
{
	return mul_hi_u64(a, b) + c;
}

static inline uint64_t mad_hi_s64(uint64_t a, uint64_t b, uint64_t c)
{
	return mul_hi_s64(a, b) + c;
}

static inline uint64_t mad_wide_s32(uint32_t a, uint32_t b, uint64_t c)
{
	return (uint64_t)((int64_t)(int32_t)a * (int32_t)b) + c;
}

static inline uint32_t mad_wide_u16(uint16_t a, uint16_t b, uint32_t c)
{
	return (uint32_t)a * b + c;
}

static inline uint64_t mul_wide_u32(uint32_t a, uint32_t b)
{
	return (uint64_t)a * b;
}

static inline uint32_t mul_wide_s16(uint16_t a, uint16_t b)
{
	return (uint32_t)((int16_t)a * (int16_t)b);
}

static inline uint32_t add_sat(uint32_t a, uint32_t b)
{
	return clamped((int64_t)(int32_t)a + (int32_t)b);
}

static inline uint32_t sub_sat(uint32_t a, uint32_t b)
{
	return clamped((int64_t)(int32_t)a - (int32_t)b);
}

static inline int32_t byte_of(uint32_t a, int n, bool is_signed)
{
	const uint8_t byte = (uint8_t)(a >> (8 * n));

	return is_signed ? (int8_t)byte : byte;
}

static inline uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c, bool sa, bool sb)
{
	for (int n = 0; n < 4; n++)
		c += (uint32_t)(byte_of(a, n, sa) * byte_of(b, n, sb));
	return c;
}

static inline uint32_t dp4a_uu(uint32_t a, uint32_t b, uint32_t c)
{
	return dp4a(a, b, c, false, false);
}

static inline uint32_t dp4a_ss(uint32_t a, uint32_t b, uint32_t c)
{
	return dp4a(a, b, c, true, true);
}

static inline uint32_t dp4a_us(uint32_t a, uint32_t b, uint32_t c)
{
	return dp4a(a, b, c, false, true);
}

static inline uint32_t dp2a_lo_ss(uint32_t a, uint32_t b, uint32_t c)
{
	return c + (uint32_t)((int16_t)a * byte_of(b, 0, true)) +
	       (uint32_t)((int16_t)(a >> 16) * byte_of(b, 1, true));
}

static inline uint32_t dp2a_hi_su(uint32_t a, uint32_t b, uint32_t c)
{
	return c + (uint32_t)((int16_t)a * byte_of(b, 2, false)) +
	       (uint32_t)((int16_t)(a >> 16) * byte_of(b, 3, false));
}

static inline uint32_t abs_s32(uint32_t a)
{
	return a & 0x80000000 ? 0 - a : a;
}

static inline uint64_t abs_s64(uint64_t a)
{
	return a >> 63 ? 0 - a : a;
}

static inline uint16_t neg_s16(uint16_t a)
{
	return (uint16_t)(0 - a);
}

static inline void chain_add(uint32_t a, uint32_t b, uint32_t c, uint32_t d,
			     uint64_t *out)
{
	const u128 sum = ((u128)a << 64 | (uint64_t)c << 32 | a) +
			 ((u128)c << 64 | (uint64_t)d << 32 | b);

	out[0] = (uint64_t)sum;
	out[1] = (uint32_t)(sum >> 64);
}

static inline void chain_sub(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
			     uint64_t *out)
{
	const u128 difference = ((u128)c << 64 | a) - ((u128)d << 64 | b);
	const bool borrow = ((u128)c << 64 | a) < ((u128)d << 64 | b);

	out[0] = (uint64_t)difference;
	out[1] = (uint64_t)(difference >> 64);
	out[2] = b - d - borrow;
}

static inline void chain_mad(uint32_t a, uint32_t b, uint32_t c, uint32_t d,
			     uint64_t *out)
{
	const u128 sum = (u128)((uint64_t)a * b) + ((uint64_t)d << 32 | c);

	out[0] = (uint64_t)sum;
	out[1] = (uint64_t)(sum >> 64);
}

static inline uint32_t popc_b64(uint64_t a)
{
	uint32_t n = 0;

	for (; a; a >>= 1)
		n += a & 1;
	return n;
}

static inline uint32_t popc_b32(uint32_t a)
{
	return popc_b64(a);
}

static inline uint32_t clz_b64(uint64_t a)
{
	uint32_t n = 0;

	while (n < 64 && !(a >> (63 - n) & 1))
		n++;
	return n;
}

static inline uint32_t clz_b32(uint32_t a)
{
	return clz_b64(a) - 32;
}

static inline uint64_t brev_b64(uint64_t a)
{
	uint64_t to = 0;

	for (int i = 0; i < 64; i++, a >>= 1)
		to = to << 1 | (a & 1);
	return to;
}

static inline uint32_t brev_b32(uint32_t a)
{
	return (uint32_t)(brev_b64(a) >> 32);
}

static inline uint32_t bfind_u64(uint64_t a)
{
	return a ? 63 - clz_b64(a) : UINT32_MAX;
}

static inline uint32_t bfind_u32(uint32_t a)
{
	return bfind_u64(a);
}

static inline uint32_t bfind_s64(uint64_t a)
{
	return bfind_u64(a >> 63 ? ~a : a);
}

static inline uint32_t bfind_s32(uint32_t a)
{
	return bfind_u32(a >> 31 ? ~a : a);
}

static inline uint32_t bfind_shift_u32(uint32_t a)
{
	return a ? 31 - bfind_u32(a) : UINT32_MAX;
}

static inline uint32_t bfind_shift_s64(uint64_t a)
{
	const uint32_t at = bfind_s64(a);

	return at == UINT32_MAX ? at : 63 - at;
}

/* Beyond its width the value continues with its sign, or with zeros. */
static inline bool bit_of(uint64_t a, uint32_t i, uint32_t bits, bool is_signed)
{
	if (i < bits)
		return a >> i & 1;
	return is_signed && a >> (bits - 1) & 1;
}

static inline uint64_t field(uint64_t a, uint32_t from, uint32_t length, uint32_t bits,
			     bool is_signed)
{
	uint64_t to = 0;

	if (!length)
		return 0;
	for (uint32_t i = 0; i < bits; i++) {
		const uint32_t at = i < length ? i : length - 1;
		const bool in = i < length || is_signed;

		to |= (uint64_t)(in && bit_of(a, from + at, bits, is_signed)) << i;
	}
	return to;
}

static inline uint32_t bfe_u32(uint32_t a, uint32_t b, uint32_t c)
{
	return (uint32_t)field(a, b & 0xff, c & 0xff, 32, false);
}

static inline uint32_t bfe_s32(uint32_t a, uint32_t b, uint32_t c)
{
	return (uint32_t)field(a, b & 0xff, c & 0xff, 32, true);
}

static inline uint64_t bfe_u64(uint64_t a, uint32_t b, uint32_t c)
{
	return field(a, b & 0xff, c & 0xff, 64, false);
}

static inline uint64_t bfe_s64(uint64_t a, uint32_t b, uint32_t c)
{
	return field(a, b & 0xff, c & 0xff, 64, true);
}

static inline uint64_t bfi_bits(uint64_t a, uint64_t b, uint32_t from, uint32_t length,
				uint32_t bits)
{
	for (uint32_t i = 0; i < (length & 0xff) && (from & 0xff) + i < bits && i < bits;
	     i++) {
		const uint64_t bit = (uint64_t)1 << ((from & 0xff) + i);

		b = a >> i & 1 ? b | bit : b & ~bit;
	}
	return b;
}

static inline uint32_t bfi_b32(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	return (uint32_t)bfi_bits(a, b, c, d, 32);
}

static inline uint64_t bfi_b64(uint64_t a, uint64_t b, uint32_t c, uint32_t d)
{
	return bfi_bits(a, b, c, d, 64);
}

static inline uint32_t cnot_b32(uint32_t a)
{
	return !a;
}

static inline uint32_t shift_left(uint32_t a, uint32_t b, uint32_t n)
{
	return (uint32_t)((u128)((uint64_t)b << 32 | a) << n >> 32);
}

static inline uint32_t shift_right(uint32_t a, uint32_t b, uint32_t n)
{
	return (uint32_t)(((uint64_t)b << 32 | a) >> n);
}

static inline uint32_t shf_l_wrap(uint32_t a, uint32_t b, uint32_t c)
{
	return shift_left(a, b, c % 32);
}

static inline uint32_t shf_l_clamp(uint32_t a, uint32_t b, uint32_t c)
{
	return shift_left(a, b, c > 32 ? 32 : c);
}

static inline uint32_t shf_r_wrap(uint32_t a, uint32_t b, uint32_t c)
{
	return shift_right(a, b, c % 32);
}

static inline uint32_t shf_r_clamp(uint32_t a, uint32_t b, uint32_t c)
{
	return shift_right(a, b, c > 32 ? 32 : c);
}

static inline uint32_t shl_b32(uint32_t a, uint32_t n)
{
	return n > 31 ? 0 : a << n;
}

static inline uint64_t shl_b64(uint64_t a, uint32_t n)
{
	return n > 63 ? 0 : a << n;
}

static inline uint32_t shr_u32(uint32_t a, uint32_t n)
{
	return n > 31 ? 0 : a >> n;
}

static inline uint32_t shr_s32(uint32_t a, uint32_t n)
{
	return (uint32_t)((int32_t)a >> (n > 31 ? 31 : n));
}

static inline uint64_t shr_u64(uint64_t a, uint32_t n)
{
	return n > 63 ? 0 : a >> n;
}

static inline uint64_t shr_s64(uint64_t a, uint32_t n)
{
	return (uint64_t)((int64_t)a >> (n > 63 ? 63 : n));
}

static inline uint16_t shr_s16(uint16_t a, uint32_t n)
{
	return (uint16_t)((int16_t)a >> (n > 15 ? 15 : n));
}

static inline uint16_t shl_b16(uint16_t a, uint32_t n)
{
	return n > 15 ? 0 : (uint16_t)(a << n);
}

static inline uint32_t prmt_any(uint32_t a, uint32_t b, uint32_t c)
{
	const uint32_t words[2] = { a, b };
	uint8_t bytes[8], to[4];
	uint32_t result;

	memcpy(bytes, words, sizeof(bytes));
	for (int i = 0; i < 4; i++) {
		to[i] = bytes[c >> (4 * i) & 7];
		if (c >> (4 * i) & 8)
			to[i] = (uint8_t)((int8_t)to[i] >> 7);
	}
	memcpy(&result, to, sizeof(result));
	return result;
}

/* The modes in the words of their description: a table of bytes for each selector. */
static inline uint32_t prmt_by(uint32_t a, uint32_t b, uint32_t c, const char *selectors)
{
	uint32_t choice = 0;

	for (int i = 0; i < 4; i++)
		choice = choice << 4 |
			 (uint32_t)(selectors[4 * (c & 3) + (uint32_t)i] - '0');
	return prmt_any(a, b, choice);
}

static inline uint32_t prmt_f4e(uint32_t a, uint32_t b, uint32_t c)
{
	return prmt_by(a, b, c, "3210432154326543");
}

static inline uint32_t prmt_b4e(uint32_t a, uint32_t b, uint32_t c)
{
	return prmt_by(a, b, c, "5670670170120123");
}

static inline uint32_t prmt_rc8(uint32_t a, uint32_t b, uint32_t c)
{
	return prmt_by(a, b, c, "0000111122223333");
}

static inline uint32_t prmt_ecl(uint32_t a, uint32_t b, uint32_t c)
{
	return prmt_by(a, b, c, "3210321132223333");
}

static inline uint32_t prmt_ecr(uint32_t a, uint32_t b, uint32_t c)
{
	return prmt_by(a, b, c, "0000111022103210");
}

static inline uint32_t prmt_rc16(uint32_t a, uint32_t b, uint32_t c)
{
	return prmt_by(a, b, c, "1010323210103232");
}

static inline uint32_t bmsk(uint64_t from, uint64_t length)
{
	uint32_t to = 0;

	for (uint64_t i = 0; i < 32; i++)
		to |= (uint32_t)(i >= from && i < from + length) << i;
	return to;
}

static inline uint32_t bmsk_wrap(uint32_t a, uint32_t b)
{
	return bmsk(a & 31, b & 31);
}

static inline uint32_t bmsk_clamp(uint32_t a, uint32_t b)
{
	return bmsk(a, b);
}

static inline uint32_t szext_wrap_u32(uint32_t a, uint32_t b)
{
	return a & ~(UINT32_MAX << (b & 31));
}

static inline uint32_t szext_clamp_s32(uint32_t a, uint32_t b)
{
	if (b > 31)
		return a;
	return b ? (uint32_t)((int32_t)(a << (32 - b)) >> (32 - b)) : 0;
}

static inline uint32_t slct_s32(uint32_t a, uint32_t b, uint32_t c)
{
	return c >> 31 ? b : a;
}

static inline uint32_t lop3_0x1d(uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t to = 0;

	for (int i = 0; i < 32; i++) {
		const uint32_t which =
			(a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);

		to |= (0x1dU >> which & 1) << i;
	}
	return to;
}

static inline uint32_t lop3_0x96(uint32_t a, uint32_t b, uint32_t c)
{
	return a ^ b ^ c;
}

static inline uint32_t lop3_0xe8(uint32_t a, uint32_t b, uint32_t c)
{
	return (a & b) | (a & c) | (b & c);
}

static inline uint32_t lop3_0x80(uint32_t a, uint32_t b, uint32_t c)
{
	return a & b & c;
}
