/* SPDX-License-Identifier: MIT */
/*
 * Building blocks of the kernels that are compared with the host. A header of such a
 * kernel has one function of its inputs and outputs in the C that both compilers know;
 * the instructions that it calls are PTX here, and C for the host in tests/corpus/host.h.
 */
#pragma once

/* The types of registers, in C and in an asm statement. */
#define C_U16 uint16_t
#define C_U32 uint32_t
#define C_U64 uint64_t
#define R_U16 "h"
#define R_U32 "r"
#define R_U64 "l"

#ifdef __CUDACC__

#include <stdint.h>

#define DEVICE __device__ static __inline__

/* An instruction as a function: its result's type, and its operands'. */
#define PTX_1(name, instruction, T, A)                                             \
	DEVICE C_##T name(C_##A x)                                                 \
	{                                                                          \
		C_##T to;                                                          \
		asm volatile(instruction " %0, %1;" : "=" R_##T(to) : R_##A(x));   \
		return to;                                                         \
	}
#define PTX_2(name, instruction, T, A, B)                                          \
	DEVICE C_##T name(C_##A x, C_##B y)                                        \
	{                                                                          \
		C_##T to;                                                          \
		asm volatile(instruction " %0, %1, %2;"                            \
			     : "=" R_##T(to)                                       \
			     : R_##A(x), R_##B(y));                                \
		return to;                                                         \
	}
#define PTX_3(name, instruction, T, A, B, C)                                       \
	DEVICE C_##T name(C_##A x, C_##B y, C_##C z)                               \
	{                                                                          \
		C_##T to;                                                          \
		asm volatile(instruction " %0, %1, %2, %3;"                        \
			     : "=" R_##T(to)                                       \
			     : R_##A(x), R_##B(y), R_##C(z));                      \
		return to;                                                         \
	}

/* A torture kernel around its function. */
#define TORTURE(name, n_out)                                                       \
	extern "C" __global__ void name(const uint64_t *in, uint64_t *out,         \
					uint32_t n)                                \
	{                                                                          \
		const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;          \
                                                                                   \
		if (i < n)                                                         \
			name##_one(in + 3 * i, out + (size_t)(n_out) * i);         \
	}

#else

#include "host.h"

#define DEVICE static inline
#define PTX_1(name, instruction, T, A)
#define PTX_2(name, instruction, T, A, B)
#define PTX_3(name, instruction, T, A, B, C)
#define TORTURE(name, n_out)

#endif
