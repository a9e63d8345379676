/* SPDX-License-Identifier: MIT */
/* Logic, shifts and fields of bits. */
#include "device.h"

PTX_1(popc_b32, "popc.b32", U32, U32)
PTX_1(popc_b64, "popc.b64", U32, U64)
PTX_1(clz_b32, "clz.b32", U32, U32)
PTX_1(clz_b64, "clz.b64", U32, U64)
PTX_1(brev_b32, "brev.b32", U32, U32)
PTX_1(brev_b64, "brev.b64", U64, U64)
PTX_1(bfind_u32, "bfind.u32", U32, U32)
PTX_1(bfind_s32, "bfind.s32", U32, U32)
PTX_1(bfind_u64, "bfind.u64", U32, U64)
PTX_1(bfind_s64, "bfind.s64", U32, U64)
PTX_1(bfind_shift_u32, "bfind.shiftamt.u32", U32, U32)
PTX_1(bfind_shift_s64, "bfind.shiftamt.s64", U32, U64)
PTX_3(bfe_u32, "bfe.u32", U32, U32, U32, U32)
PTX_3(bfe_s32, "bfe.s32", U32, U32, U32, U32)
PTX_3(bfe_u64, "bfe.u64", U64, U64, U32, U32)
PTX_3(bfe_s64, "bfe.s64", U64, U64, U32, U32)
PTX_1(cnot_b32, "cnot.b32", U32, U32)
PTX_3(shf_l_wrap, "shf.l.wrap.b32", U32, U32, U32, U32)
PTX_3(shf_l_clamp, "shf.l.clamp.b32", U32, U32, U32, U32)
PTX_3(shf_r_wrap, "shf.r.wrap.b32", U32, U32, U32, U32)
PTX_3(shf_r_clamp, "shf.r.clamp.b32", U32, U32, U32, U32)
PTX_2(shl_b32, "shl.b32", U32, U32, U32)
PTX_2(shl_b64, "shl.b64", U64, U64, U32)
PTX_2(shr_u32, "shr.u32", U32, U32, U32)
PTX_2(shr_s32, "shr.s32", U32, U32, U32)
PTX_2(shr_u64, "shr.u64", U64, U64, U32)
PTX_2(shr_s64, "shr.s64", U64, U64, U32)
PTX_2(shr_s16, "shr.s16", U16, U16, U32)
PTX_2(shl_b16, "shl.b16", U16, U16, U32)
PTX_3(prmt_any, "prmt.b32", U32, U32, U32, U32)
PTX_3(prmt_f4e, "prmt.b32.f4e", U32, U32, U32, U32)
PTX_3(prmt_b4e, "prmt.b32.b4e", U32, U32, U32, U32)
PTX_3(prmt_rc8, "prmt.b32.rc8", U32, U32, U32, U32)
PTX_3(prmt_ecl, "prmt.b32.ecl", U32, U32, U32, U32)
PTX_3(prmt_ecr, "prmt.b32.ecr", U32, U32, U32, U32)
PTX_3(prmt_rc16, "prmt.b32.rc16", U32, U32, U32, U32)
PTX_2(bmsk_wrap, "bmsk.wrap.b32", U32, U32, U32)
PTX_2(bmsk_clamp, "bmsk.clamp.b32", U32, U32, U32)
PTX_2(szext_wrap_u32, "szext.wrap.u32", U32, U32, U32)
PTX_2(szext_clamp_s32, "szext.clamp.s32", U32, U32, U32)
PTX_3(slct_s32, "slct.u32.s32", U32, U32, U32, U32)

#ifdef __CUDACC__
#define LOP3(table)                                                                  \
	DEVICE uint32_t lop3_##table(uint32_t a, uint32_t b, uint32_t c)             \
	{                                                                            \
		uint32_t to;                                                         \
		asm volatile("lop3.b32 %0, %1, %2, %3, " #table ";"                  \
			     : "=r"(to)                                              \
			     : "r"(a), "r"(b), "r"(c));                              \
		return to;                                                           \
	}
LOP3(0x1d)
LOP3(0x96)
LOP3(0xe8)
LOP3(0x80)

DEVICE uint32_t bfi_b32(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	uint32_t to;

	asm volatile("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(to) : "r"(a), "r"(b), "r"(c), "r"(d));
	return to;
}

DEVICE uint64_t bfi_b64(uint64_t a, uint64_t b, uint32_t c, uint32_t d)
{
	uint64_t to;

	asm volatile("bfi.b64 %0, %1, %2, %3, %4;" : "=l"(to) : "l"(a), "l"(b), "r"(c), "r"(d));
	return to;
}
#endif

#define N_BITS 64

DEVICE void bits_one(const uint64_t *in, uint64_t *out)
{
	const uint64_t A = in[0], B = in[1], C = in[2];
	const uint32_t a = (uint32_t)A, b = (uint32_t)B, c = (uint32_t)C;
	const uint32_t m = (uint32_t)(B >> 32) & 0xff, n = (uint32_t)(C >> 32) & 0x7f;
	const uint16_t h = (uint16_t)A;
	int k = 0;

	out[k++] = a & b;
	out[k++] = a | c;
	out[k++] = a ^ b;
	out[k++] = ~a;
	out[k++] = A & B;
	out[k++] = A | C;
	out[k++] = A ^ B;
	out[k++] = ~A;
	out[k++] = popc_b32(a);
	out[k++] = popc_b64(A);
	out[k++] = clz_b32(a);
	out[k++] = clz_b64(A);
	out[k++] = brev_b32(a);
	out[k++] = brev_b64(A);
	out[k++] = bfind_u32(a);
	out[k++] = bfind_s32(a);
	out[k++] = bfind_u64(A);
	out[k++] = bfind_s64(A);
	out[k++] = bfind_shift_u32(a);
	out[k++] = bfind_shift_s64(A);
	out[k++] = bfe_u32(a, m, n);
	out[k++] = bfe_s32(a, m, n);
	out[k++] = bfe_u64(A, m, n);
	out[k++] = bfe_s64(A, m, n);
	out[k++] = bfe_s32(a, m & 31, n & 31);
	out[k++] = bfi_b32(a, b, m, n);
	out[k++] = bfi_b64(A, B, m, n);
	out[k++] = bfi_b32(a, b, m & 31, n & 31);
	out[k++] = cnot_b32(a & 1);
	out[k++] = shf_l_wrap(a, b, n);
	out[k++] = shf_l_clamp(a, b, n);
	out[k++] = shf_r_wrap(a, b, n);
	out[k++] = shf_r_clamp(a, b, n);
	out[k++] = shl_b32(a, n);
	out[k++] = shl_b64(A, n);
	out[k++] = shr_u32(a, n);
	out[k++] = shr_s32(a, n);
	out[k++] = shr_u64(A, n);
	out[k++] = shr_s64(A, n);
	out[k++] = shr_s16(h, n);
	out[k++] = shl_b16(h, n);
	out[k++] = shl_b32(a, b);
	out[k++] = shr_s64(A, c);
	out[k++] = prmt_any(a, b, c);
	out[k++] = prmt_f4e(a, b, c);
	out[k++] = prmt_b4e(a, b, c);
	out[k++] = prmt_rc8(a, b, c);
	out[k++] = prmt_ecl(a, b, c);
	out[k++] = prmt_ecr(a, b, c);
	out[k++] = prmt_rc16(a, b, c);
	out[k++] = bmsk_wrap(m, n);
	out[k++] = bmsk_clamp(m, n);
	out[k++] = szext_wrap_u32(a, n);
	out[k++] = szext_clamp_s32(a, n);
	out[k++] = slct_s32(a, b, c);
	out[k++] = lop3_0x1d(a, b, c);
	out[k++] = lop3_0x96(a, b, c);
	out[k++] = lop3_0xe8(a, b, c);
	out[k++] = lop3_0x80(a, b, c);
	while (k < N_BITS)
		out[k++] = 0;
}

TORTURE(bits, N_BITS)
