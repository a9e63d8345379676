/* SPDX-License-Identifier: MIT */
/* Arithmetic and comparisons of f32: every rounding mode, flushing and saturation. */
#include "device.h"

PTX_2(add_rn_f32, "add.rn.f32", U32, U32, U32)
PTX_2(add_rz_f32, "add.rz.f32", U32, U32, U32)
PTX_2(add_rm_f32, "add.rm.f32", U32, U32, U32)
PTX_2(add_rp_f32, "add.rp.f32", U32, U32, U32)
PTX_2(sub_rn_f32, "sub.rn.f32", U32, U32, U32)
PTX_2(sub_rz_f32, "sub.rz.f32", U32, U32, U32)
PTX_2(sub_rm_f32, "sub.rm.f32", U32, U32, U32)
PTX_2(sub_rp_f32, "sub.rp.f32", U32, U32, U32)
PTX_2(mul_rn_f32, "mul.rn.f32", U32, U32, U32)
PTX_2(mul_rz_f32, "mul.rz.f32", U32, U32, U32)
PTX_2(mul_rm_f32, "mul.rm.f32", U32, U32, U32)
PTX_2(mul_rp_f32, "mul.rp.f32", U32, U32, U32)
PTX_2(div_rn_f32, "div.rn.f32", U32, U32, U32)
PTX_2(div_rz_f32, "div.rz.f32", U32, U32, U32)
PTX_2(div_rm_f32, "div.rm.f32", U32, U32, U32)
PTX_2(div_rp_f32, "div.rp.f32", U32, U32, U32)
PTX_3(fma_rn_f32, "fma.rn.f32", U32, U32, U32, U32)
PTX_3(fma_rz_f32, "fma.rz.f32", U32, U32, U32, U32)
PTX_3(fma_rm_f32, "fma.rm.f32", U32, U32, U32, U32)
PTX_3(fma_rp_f32, "fma.rp.f32", U32, U32, U32, U32)
PTX_1(rcp_rn_f32, "rcp.rn.f32", U32, U32)
PTX_1(rcp_rz_f32, "rcp.rz.f32", U32, U32)
PTX_1(rcp_rm_f32, "rcp.rm.f32", U32, U32)
PTX_1(rcp_rp_f32, "rcp.rp.f32", U32, U32)
PTX_1(sqrt_rn_f32, "sqrt.rn.f32", U32, U32)
PTX_1(sqrt_rz_f32, "sqrt.rz.f32", U32, U32)
PTX_1(sqrt_rm_f32, "sqrt.rm.f32", U32, U32)
PTX_1(sqrt_rp_f32, "sqrt.rp.f32", U32, U32)
PTX_2(add_ftz_f32, "add.rn.ftz.f32", U32, U32, U32)
PTX_2(mul_ftz_f32, "mul.rn.ftz.f32", U32, U32, U32)
PTX_2(div_ftz_f32, "div.rn.ftz.f32", U32, U32, U32)
PTX_3(fma_ftz_f32, "fma.rn.ftz.f32", U32, U32, U32, U32)
PTX_1(rcp_ftz_f32, "rcp.rn.ftz.f32", U32, U32)
PTX_1(sqrt_ftz_f32, "sqrt.rn.ftz.f32", U32, U32)
PTX_2(add_sat_f32, "add.rn.sat.f32", U32, U32, U32)
PTX_2(mul_sat_f32, "mul.rn.sat.f32", U32, U32, U32)
PTX_3(fma_sat_f32, "fma.rn.sat.f32", U32, U32, U32, U32)
PTX_3(fma_ftz_sat_f32, "fma.rn.ftz.sat.f32", U32, U32, U32, U32)
PTX_2(min_f32, "min.f32", U32, U32, U32)
PTX_2(min_nan_f32, "min.NaN.f32", U32, U32, U32)
PTX_2(min_ftz_f32, "min.ftz.f32", U32, U32, U32)
PTX_2(min_xorsign_f32, "min.xorsign.abs.f32", U32, U32, U32)
PTX_2(max_f32, "max.f32", U32, U32, U32)
PTX_2(max_nan_f32, "max.NaN.f32", U32, U32, U32)
PTX_2(max_ftz_f32, "max.ftz.f32", U32, U32, U32)
PTX_2(max_xorsign_f32, "max.xorsign.abs.f32", U32, U32, U32)
PTX_1(abs_ftz_f32, "abs.ftz.f32", U32, U32)
PTX_1(neg_ftz_f32, "neg.ftz.f32", U32, U32)
PTX_1(abs_f32, "abs.f32", U32, U32)
PTX_1(neg_f32, "neg.f32", U32, U32)
PTX_2(copysign_f32, "copysign.f32", U32, U32, U32)
PTX_2(set_eq_f32, "set.eq.u32.f32", U32, U32, U32)
PTX_2(set_ne_f32, "set.ne.u32.f32", U32, U32, U32)
PTX_2(set_lt_f32, "set.lt.u32.f32", U32, U32, U32)
PTX_2(set_le_f32, "set.le.u32.f32", U32, U32, U32)
PTX_2(set_gt_f32, "set.gt.u32.f32", U32, U32, U32)
PTX_2(set_ge_f32, "set.ge.u32.f32", U32, U32, U32)
PTX_2(set_equ_f32, "set.equ.u32.f32", U32, U32, U32)
PTX_2(set_neu_f32, "set.neu.u32.f32", U32, U32, U32)
PTX_2(set_ltu_f32, "set.ltu.u32.f32", U32, U32, U32)
PTX_2(set_leu_f32, "set.leu.u32.f32", U32, U32, U32)
PTX_2(set_gtu_f32, "set.gtu.u32.f32", U32, U32, U32)
PTX_2(set_geu_f32, "set.geu.u32.f32", U32, U32, U32)
PTX_2(set_num_f32, "set.num.u32.f32", U32, U32, U32)
PTX_2(set_nan_f32, "set.nan.u32.f32", U32, U32, U32)
PTX_2(set_lt_ftz_f32, "set.lt.ftz.u32.f32", U32, U32, U32)

/* Twice what set gives: where it is only stored ptxas makes the integer 1 of it. */
#ifdef __CUDACC__
DEVICE uint32_t set_gt_twice_f32(uint32_t a, uint32_t b)
{
	uint32_t to;

	asm volatile("{\n\t.reg .f32 one;\n\tset.gt.f32.f32 one, %1, %2;\n\t"
		     "add.f32 one, one, one;\n\tmov.b32 %0, one;\n\t}"
		     : "=r"(to)
		     : "r"(a), "r"(b));
	return to;
}
#endif

#ifdef __CUDACC__
#define TESTP(class)                                                                \
	DEVICE uint32_t testp_##class##_f32(uint32_t a)                               \
	{                                                                           \
		uint32_t to;                                                        \
		asm volatile("{\n\t.reg .pred p;\n\ttestp." #class ".f32 p, %1;\n\t" \
			     "selp.u32 %0, 1, 0, p;\n\t}"                           \
			     : "=r"(to)                                             \
			     : "r"(a));                                             \
		return to;                                                          \
	}
TESTP(finite)
TESTP(infinite)
TESTP(number)
TESTP(notanumber)
TESTP(normal)
TESTP(subnormal)
#endif

#define N_SINGLES 73

DEVICE void singles_one(const uint64_t *in, uint64_t *out)
{
	const uint32_t a = (uint32_t)in[0], b = (uint32_t)in[1], c = (uint32_t)in[2];
	int k = 0;

	(void)c;
	out[k++] = add_rn_f32(a, b);
	out[k++] = add_rz_f32(a, b);
	out[k++] = add_rm_f32(a, b);
	out[k++] = add_rp_f32(a, b);
	out[k++] = sub_rn_f32(a, b);
	out[k++] = sub_rz_f32(a, b);
	out[k++] = sub_rm_f32(a, b);
	out[k++] = sub_rp_f32(a, b);
	out[k++] = mul_rn_f32(a, b);
	out[k++] = mul_rz_f32(a, b);
	out[k++] = mul_rm_f32(a, b);
	out[k++] = mul_rp_f32(a, b);
	out[k++] = div_rn_f32(a, b);
	out[k++] = div_rz_f32(a, b);
	out[k++] = div_rm_f32(a, b);
	out[k++] = div_rp_f32(a, b);
	out[k++] = fma_rn_f32(a, b, c);
	out[k++] = fma_rz_f32(a, b, c);
	out[k++] = fma_rm_f32(a, b, c);
	out[k++] = fma_rp_f32(a, b, c);
	out[k++] = rcp_rn_f32(a);
	out[k++] = rcp_rz_f32(a);
	out[k++] = rcp_rm_f32(a);
	out[k++] = rcp_rp_f32(a);
	out[k++] = sqrt_rn_f32(a);
	out[k++] = sqrt_rz_f32(a);
	out[k++] = sqrt_rm_f32(a);
	out[k++] = sqrt_rp_f32(a);
	out[k++] = add_ftz_f32(a, b);
	out[k++] = mul_ftz_f32(a, b);
	out[k++] = div_ftz_f32(a, b);
	out[k++] = fma_ftz_f32(a, b, c);
	out[k++] = rcp_ftz_f32(a);
	out[k++] = sqrt_ftz_f32(a);
	out[k++] = add_sat_f32(a, b);
	out[k++] = mul_sat_f32(a, b);
	out[k++] = fma_sat_f32(a, b, c);
	out[k++] = fma_ftz_sat_f32(a, b, c);
	out[k++] = min_f32(a, b);
	out[k++] = min_nan_f32(a, b);
	out[k++] = min_ftz_f32(a, b);
	out[k++] = min_xorsign_f32(a, b);
	out[k++] = max_f32(a, b);
	out[k++] = max_nan_f32(a, b);
	out[k++] = max_ftz_f32(a, b);
	out[k++] = max_xorsign_f32(a, b);
	out[k++] = abs_ftz_f32(a);
	out[k++] = neg_ftz_f32(a);
	out[k++] = abs_f32(a);
	out[k++] = neg_f32(a);
	out[k++] = copysign_f32(a, b);
	out[k++] = set_eq_f32(a, b);
	out[k++] = set_ne_f32(a, b);
	out[k++] = set_lt_f32(a, b);
	out[k++] = set_le_f32(a, b);
	out[k++] = set_gt_f32(a, b);
	out[k++] = set_ge_f32(a, b);
	out[k++] = set_equ_f32(a, b);
	out[k++] = set_neu_f32(a, b);
	out[k++] = set_ltu_f32(a, b);
	out[k++] = set_leu_f32(a, b);
	out[k++] = set_gtu_f32(a, b);
	out[k++] = set_geu_f32(a, b);
	out[k++] = set_num_f32(a, b);
	out[k++] = set_nan_f32(a, b);
	out[k++] = set_lt_ftz_f32(a, b);
	out[k++] = set_gt_twice_f32(b, c);
	out[k++] = testp_finite_f32(a);
	out[k++] = testp_infinite_f32(a);
	out[k++] = testp_number_f32(a);
	out[k++] = testp_notanumber_f32(a);
	out[k++] = testp_normal_f32(a);
	out[k++] = testp_subnormal_f32(a);
}

TORTURE(singles, N_SINGLES)
