/* SPDX-License-Identifier: MIT */
/* Arithmetic and comparisons of f64: every rounding mode. */
#include "device.h"

PTX_2(add_rn_f64, "add.rn.f64", U64, U64, U64)
PTX_2(add_rz_f64, "add.rz.f64", U64, U64, U64)
PTX_2(add_rm_f64, "add.rm.f64", U64, U64, U64)
PTX_2(add_rp_f64, "add.rp.f64", U64, U64, U64)
PTX_2(sub_rn_f64, "sub.rn.f64", U64, U64, U64)
PTX_2(sub_rz_f64, "sub.rz.f64", U64, U64, U64)
PTX_2(sub_rm_f64, "sub.rm.f64", U64, U64, U64)
PTX_2(sub_rp_f64, "sub.rp.f64", U64, U64, U64)
PTX_2(mul_rn_f64, "mul.rn.f64", U64, U64, U64)
PTX_2(mul_rz_f64, "mul.rz.f64", U64, U64, U64)
PTX_2(mul_rm_f64, "mul.rm.f64", U64, U64, U64)
PTX_2(mul_rp_f64, "mul.rp.f64", U64, U64, U64)
PTX_2(div_rn_f64, "div.rn.f64", U64, U64, U64)
PTX_2(div_rz_f64, "div.rz.f64", U64, U64, U64)
PTX_2(div_rm_f64, "div.rm.f64", U64, U64, U64)
PTX_2(div_rp_f64, "div.rp.f64", U64, U64, U64)
PTX_3(fma_rn_f64, "fma.rn.f64", U64, U64, U64, U64)
PTX_3(fma_rz_f64, "fma.rz.f64", U64, U64, U64, U64)
PTX_3(fma_rm_f64, "fma.rm.f64", U64, U64, U64, U64)
PTX_3(fma_rp_f64, "fma.rp.f64", U64, U64, U64, U64)
PTX_1(rcp_rn_f64, "rcp.rn.f64", U64, U64)
PTX_1(rcp_rz_f64, "rcp.rz.f64", U64, U64)
PTX_1(rcp_rm_f64, "rcp.rm.f64", U64, U64)
PTX_1(rcp_rp_f64, "rcp.rp.f64", U64, U64)
PTX_1(sqrt_rn_f64, "sqrt.rn.f64", U64, U64)
PTX_1(sqrt_rz_f64, "sqrt.rz.f64", U64, U64)
PTX_1(sqrt_rm_f64, "sqrt.rm.f64", U64, U64)
PTX_1(sqrt_rp_f64, "sqrt.rp.f64", U64, U64)
PTX_2(min_f64, "min.f64", U64, U64, U64)
PTX_2(max_f64, "max.f64", U64, U64, U64)
PTX_1(abs_f64, "abs.f64", U64, U64)
PTX_1(neg_f64, "neg.f64", U64, U64)
PTX_2(copysign_f64, "copysign.f64", U64, U64, U64)
PTX_2(set_eq_f64, "set.eq.u32.f64", U32, U64, U64)
PTX_2(set_ne_f64, "set.ne.u32.f64", U32, U64, U64)
PTX_2(set_lt_f64, "set.lt.u32.f64", U32, U64, U64)
PTX_2(set_le_f64, "set.le.u32.f64", U32, U64, U64)
PTX_2(set_gt_f64, "set.gt.u32.f64", U32, U64, U64)
PTX_2(set_ge_f64, "set.ge.u32.f64", U32, U64, U64)
PTX_2(set_equ_f64, "set.equ.u32.f64", U32, U64, U64)
PTX_2(set_neu_f64, "set.neu.u32.f64", U32, U64, U64)
PTX_2(set_ltu_f64, "set.ltu.u32.f64", U32, U64, U64)
PTX_2(set_leu_f64, "set.leu.u32.f64", U32, U64, U64)
PTX_2(set_gtu_f64, "set.gtu.u32.f64", U32, U64, U64)
PTX_2(set_geu_f64, "set.geu.u32.f64", U32, U64, U64)
PTX_2(set_num_f64, "set.num.u32.f64", U32, U64, U64)
PTX_2(set_nan_f64, "set.nan.u32.f64", U32, U64, U64)

#ifdef __CUDACC__
#define TESTP(class)                                                                \
	DEVICE uint32_t testp_##class##_f64(uint64_t a)                               \
	{                                                                           \
		uint32_t to;                                                        \
		asm volatile("{\n\t.reg .pred p;\n\ttestp." #class ".f64 p, %1;\n\t" \
			     "selp.u32 %0, 1, 0, p;\n\t}"                           \
			     : "=r"(to)                                             \
			     : "l"(a));                                             \
		return to;                                                          \
	}
TESTP(finite)
TESTP(infinite)
TESTP(number)
TESTP(notanumber)
TESTP(normal)
TESTP(subnormal)
#endif

#define N_DOUBLES 53

DEVICE void doubles_one(const uint64_t *in, uint64_t *out)
{
	const uint64_t a = in[0], b = in[1], c = in[2];
	int k = 0;

	(void)c;
	out[k++] = add_rn_f64(a, b);
	out[k++] = add_rz_f64(a, b);
	out[k++] = add_rm_f64(a, b);
	out[k++] = add_rp_f64(a, b);
	out[k++] = sub_rn_f64(a, b);
	out[k++] = sub_rz_f64(a, b);
	out[k++] = sub_rm_f64(a, b);
	out[k++] = sub_rp_f64(a, b);
	out[k++] = mul_rn_f64(a, b);
	out[k++] = mul_rz_f64(a, b);
	out[k++] = mul_rm_f64(a, b);
	out[k++] = mul_rp_f64(a, b);
	out[k++] = div_rn_f64(a, b);
	out[k++] = div_rz_f64(a, b);
	out[k++] = div_rm_f64(a, b);
	out[k++] = div_rp_f64(a, b);
	out[k++] = fma_rn_f64(a, b, c);
	out[k++] = fma_rz_f64(a, b, c);
	out[k++] = fma_rm_f64(a, b, c);
	out[k++] = fma_rp_f64(a, b, c);
	out[k++] = rcp_rn_f64(a);
	out[k++] = rcp_rz_f64(a);
	out[k++] = rcp_rm_f64(a);
	out[k++] = rcp_rp_f64(a);
	out[k++] = sqrt_rn_f64(a);
	out[k++] = sqrt_rz_f64(a);
	out[k++] = sqrt_rm_f64(a);
	out[k++] = sqrt_rp_f64(a);
	out[k++] = min_f64(a, b);
	out[k++] = max_f64(a, b);
	out[k++] = abs_f64(a);
	out[k++] = neg_f64(a);
	out[k++] = copysign_f64(a, b);
	out[k++] = set_eq_f64(a, b);
	out[k++] = set_ne_f64(a, b);
	out[k++] = set_lt_f64(a, b);
	out[k++] = set_le_f64(a, b);
	out[k++] = set_gt_f64(a, b);
	out[k++] = set_ge_f64(a, b);
	out[k++] = set_equ_f64(a, b);
	out[k++] = set_neu_f64(a, b);
	out[k++] = set_ltu_f64(a, b);
	out[k++] = set_leu_f64(a, b);
	out[k++] = set_gtu_f64(a, b);
	out[k++] = set_geu_f64(a, b);
	out[k++] = set_num_f64(a, b);
	out[k++] = set_nan_f64(a, b);
	out[k++] = testp_finite_f64(a);
	out[k++] = testp_infinite_f64(a);
	out[k++] = testp_number_f64(a);
	out[k++] = testp_notanumber_f64(a);
	out[k++] = testp_normal_f64(a);
	out[k++] = testp_subnormal_f64(a);
}

TORTURE(doubles, N_DOUBLES)
