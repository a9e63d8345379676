/* SPDX-License-Identifier: MIT */
/* Integer instructions of every width. */
#include "device.h"

PTX_3(sad_u32, "sad.u32", U32, U32, U32, U32)
PTX_3(sad_s32, "sad.s32", U32, U32, U32, U32)
PTX_3(sad_u64, "sad.u64", U64, U64, U64, U64)
PTX_3(sad_s64, "sad.s64", U64, U64, U64, U64)
PTX_3(sad_s16, "sad.s16", U16, U16, U16, U16)
PTX_2(mul24_lo_u32, "mul24.lo.u32", U32, U32, U32)
PTX_2(mul24_lo_s32, "mul24.lo.s32", U32, U32, U32)
PTX_2(mul24_hi_u32, "mul24.hi.u32", U32, U32, U32)
PTX_2(mul24_hi_s32, "mul24.hi.s32", U32, U32, U32)
PTX_3(mad24_lo_s32, "mad24.lo.s32", U32, U32, U32, U32)
PTX_3(mad24_hi_u32, "mad24.hi.u32", U32, U32, U32, U32)
PTX_3(mad_hi_u32, "mad.hi.u32", U32, U32, U32, U32)
PTX_3(mad_hi_s32, "mad.hi.s32", U32, U32, U32, U32)
PTX_3(mad_hi_sat_s32, "mad.hi.sat.s32", U32, U32, U32, U32)
PTX_3(mad_hi_u64, "mad.hi.u64", U64, U64, U64, U64)
PTX_3(mad_hi_s64, "mad.hi.s64", U64, U64, U64, U64)
PTX_3(mad_wide_s32, "mad.wide.s32", U64, U32, U32, U64)
PTX_3(mad_wide_u16, "mad.wide.u16", U32, U16, U16, U32)
PTX_2(mul_hi_u64, "mul.hi.u64", U64, U64, U64)
PTX_2(mul_hi_s64, "mul.hi.s64", U64, U64, U64)
PTX_2(mul_hi_s16, "mul.hi.s16", U16, U16, U16)
PTX_2(mul_hi_u32, "mul.hi.u32", U32, U32, U32)
PTX_2(mul_hi_s32, "mul.hi.s32", U32, U32, U32)
PTX_2(mul_wide_u32, "mul.wide.u32", U64, U32, U32)
PTX_2(mul_wide_s16, "mul.wide.s16", U32, U16, U16)
PTX_2(add_sat, "add.sat.s32", U32, U32, U32)
PTX_2(sub_sat, "sub.sat.s32", U32, U32, U32)
PTX_3(dp4a_uu, "dp4a.u32.u32", U32, U32, U32, U32)
PTX_3(dp4a_ss, "dp4a.s32.s32", U32, U32, U32, U32)
PTX_3(dp4a_us, "dp4a.u32.s32", U32, U32, U32, U32)
PTX_3(dp2a_lo_ss, "dp2a.lo.s32.s32", U32, U32, U32, U32)
PTX_3(dp2a_hi_su, "dp2a.hi.s32.u32", U32, U32, U32, U32)
PTX_1(abs_s32, "abs.s32", U32, U32)
PTX_1(abs_s64, "abs.s64", U64, U64)
PTX_1(neg_s16, "neg.s16", U16, U16)

/* A sum and a difference of three words, and a product, with carries. */
#ifdef __CUDACC__
DEVICE void chain_add(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint64_t *out)
{
	uint32_t low, middle, high;

	asm volatile("add.cc.u32 %0, %3, %4;\n\taddc.cc.u32 %1, %5, %6;\n\t"
		     "addc.u32 %2, %3, %5;"
		     : "=&r"(low), "=&r"(middle), "=r"(high)
		     : "r"(a), "r"(b), "r"(c), "r"(d));
	out[0] = (uint64_t)middle << 32 | low;
	out[1] = high;
}

DEVICE void chain_sub(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t *out)
{
	asm volatile("sub.cc.u64 %0, %3, %4;\n\tsubc.cc.u64 %1, %5, %6;\n\t"
		     "subc.u64 %2, %4, %6;"
		     : "=&l"(out[0]), "=&l"(out[1]), "=l"(out[2])
		     : "l"(a), "l"(b), "l"(c), "l"(d));
}

DEVICE void chain_mad(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint64_t *out)
{
	uint32_t low, high, top;

	asm volatile("mad.lo.cc.u32 %0, %3, %4, %5;\n\tmadc.hi.cc.u32 %1, %3, %4, %6;\n\t"
		     "addc.u32 %2, 0, 0;"
		     : "=&r"(low), "=&r"(high), "=r"(top)
		     : "r"(a), "r"(b), "r"(c), "r"(d));
	out[0] = (uint64_t)high << 32 | low;
	out[1] = top;
}
#endif

#define N_INTEGER 84

DEVICE void integer_one(const uint64_t *in, uint64_t *out)
{
	const uint64_t A = in[0], B = in[1], C = in[2];
	const int64_t SA = (int64_t)A, SB = (int64_t)B;
	const uint32_t a = (uint32_t)A, b = (uint32_t)B, c = (uint32_t)C;
	const uint32_t d = (uint32_t)(A >> 32);
	const int32_t sa = (int32_t)a, sb = (int32_t)b;
	const uint16_t h = (uint16_t)A, i = (uint16_t)B, j = (uint16_t)C;
	const int16_t sh = (int16_t)h, si = (int16_t)i;
	int k = 0;

	out[k++] = a + b;
	out[k++] = a - b;
	out[k++] = a * b;
	out[k++] = a * b + c;
	out[k++] = A + B;
	out[k++] = A - B;
	out[k++] = A * B;
	out[k++] = A * B + C;
	out[k++] = (uint16_t)(h + i);
	out[k++] = (uint16_t)((uint32_t)h * i + j);
	out[k++] = a / (b | 1);
	out[k++] = a % (b | 1);
	out[k++] = A / (B | 1);
	out[k++] = A % (B | 1);
	out[k++] = (uint16_t)(h / (i | 1));
	out[k++] = (uint16_t)(h % (i | 1));
	out[k++] = (uint32_t)(sa / ((sb & 0xffff) | 1));
	out[k++] = (uint32_t)(sa % ((sb & 0xffff) | 1));
	out[k++] = (uint64_t)((SA >> 1) / (SB | 1));
	out[k++] = (uint64_t)((SA >> 1) % (SB | 1));
	out[k++] = (uint16_t)((sh >> 1) / (si | 1));
	out[k++] = (uint16_t)((sh >> 1) % (si | 1));
	out[k++] = a < b ? a : b;
	out[k++] = sa < sb ? a : b;
	out[k++] = A > B ? A : B;
	out[k++] = SA > SB ? A : B;
	out[k++] = (uint16_t)(sh < si ? sh : si);
	out[k++] = (uint64_t)(SA < SB) | (uint64_t)(A < B) << 1 | (uint64_t)(sa <= sb) << 2 |
		   (uint64_t)(a >= b) << 3 | (uint64_t)(sh > si) << 4 | (uint64_t)(h == i) << 5 |
		   (uint64_t)(A != B) << 6;
	out[k++] = sad_u32(a, b, c);
	out[k++] = sad_s32(a, b, c);
	out[k++] = sad_u64(A, B, C);
	out[k++] = sad_s64(A, B, C);
	out[k++] = sad_s16(h, i, j);
	out[k++] = mul24_lo_u32(a, b);
	out[k++] = mul24_lo_s32(a, b);
	out[k++] = mul24_hi_u32(a, b);
	out[k++] = mul24_hi_s32(a, b);
	out[k++] = mad24_lo_s32(a, b, c);
	out[k++] = mad24_hi_u32(a, b, c);
	out[k++] = mad_hi_u32(a, b, c);
	out[k++] = mad_hi_s32(a, b, c);
	/* Of others than mad_hi_s32: ptxas makes one of the two, and leaves .sat out. */
	out[k++] = mad_hi_sat_s32(c, a, b);
	out[k++] = mad_hi_u64(A, B, C);
	out[k++] = mad_hi_s64(A, B, C);
	out[k++] = mad_wide_s32(a, b, C);
	out[k++] = mad_wide_u16(h, i, c);
	out[k++] = mul_hi_u64(A, B);
	out[k++] = mul_hi_s64(A, B);
	out[k++] = mul_hi_s16(h, i);
	out[k++] = mul_hi_u32(a, b);
	out[k++] = mul_hi_s32(a, b);
	out[k++] = mul_wide_u32(a, b);
	out[k++] = mul_wide_s16(h, i);
	out[k++] = add_sat(a, b);
	out[k++] = sub_sat(a, b);
	out[k++] = dp4a_uu(a, b, c);
	out[k++] = dp4a_ss(a, b, c);
	out[k++] = dp4a_us(a, b, c);
	out[k++] = dp2a_lo_ss(a, b, c);
	out[k++] = dp2a_hi_su(a, b, c);
	out[k++] = abs_s32(a);
	out[k++] = abs_s64(A);
	out[k++] = neg_s16(h);
	chain_add(a, b, c, d, out + k);
	k += 2;
	chain_sub(A, B, C, A ^ C, out + k);
	k += 3;
	chain_mad(a, b, c, d, out + k);
	k += 2;
	out[k++] = (uint64_t)(int64_t)(int8_t)a;
	out[k++] = (uint8_t)b;
	out[k++] = (uint64_t)(int64_t)sh;
	out[k++] = (uint64_t)(int64_t)sa;
	out[k++] = (uint64_t)(int64_t)(int8_t)(A >> 56);
	while (k < N_INTEGER)
		out[k++] = 0;
}

TORTURE(integer, N_INTEGER)
