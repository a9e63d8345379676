/* SPDX-License-Identifier: MIT */
/* Kernels of the conformance tests, as text, so that no compiler is needed. */
#pragma once

#define PTX_HEAD ".version 7.0\n.target sm_80\n.address_size 64\n"

/* saxpy(n, a, x, y): y[i] += a * x[i] */
#define PTX_SAXPY                                                            \
	".visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x," \
	" .param .u64 y)\n"                                                  \
	"{\n"                                                                \
	".reg .pred %p<2>;\n.reg .f32 %f<5>;\n.reg .b32 %r<6>;\n"            \
	".reg .b64 %rd<8>;\n"                                                \
	"ld.param.u32 %r2, [n];\n"                                           \
	"ld.param.f32 %f1, [a];\n"                                           \
	"ld.param.u64 %rd1, [x];\n"                                          \
	"ld.param.u64 %rd2, [y];\n"                                          \
	"mov.u32 %r3, %ctaid.x;\n"                                           \
	"mov.u32 %r4, %ntid.x;\n"                                            \
	"mov.u32 %r5, %tid.x;\n"                                             \
	"mad.lo.s32 %r1, %r3, %r4, %r5;\n"                                   \
	"setp.ge.u32 %p1, %r1, %r2;\n"                                       \
	"@%p1 bra DONE;\n"                                                   \
	"cvta.to.global.u64 %rd3, %rd1;\n"                                   \
	"cvta.to.global.u64 %rd4, %rd2;\n"                                   \
	"mul.wide.u32 %rd5, %r1, 4;\n"                                       \
	"add.s64 %rd6, %rd3, %rd5;\n"                                        \
	"add.s64 %rd7, %rd4, %rd5;\n"                                        \
	"ld.global.f32 %f2, [%rd6];\n"                                       \
	"ld.global.f32 %f3, [%rd7];\n"                                       \
	"fma.rn.f32 %f4, %f2, %f1, %f3;\n"                                   \
	"st.global.f32 [%rd7], %f4;\n"                                       \
	"DONE:\nret;\n"                                                      \
	"}\n"

/* poke(address, value): one thread stores a word */
#define PTX_POKE                                                         \
	".visible .entry poke(.param .u64 address, .param .u32 value)\n" \
	"{\n"                                                            \
	".reg .b32 %r<2>;\n.reg .b64 %rd<2>;\n"                          \
	"ld.param.u64 %rd1, [address];\n"                                \
	"ld.param.u32 %r1, [value];\n"                                   \
	"st.global.u32 [%rd1], %r1;\n"                                   \
	"ret;\n"                                                         \
	"}\n"

/* peek(address, result): one thread loads a word and stores it */
#define PTX_PEEK                                                          \
	".visible .entry peek(.param .u64 address, .param .u64 result)\n" \
	"{\n"                                                             \
	".reg .b32 %r<2>;\n.reg .b64 %rd<3>;\n"                           \
	"ld.param.u64 %rd1, [address];\n"                                 \
	"ld.param.u64 %rd2, [result];\n"                                  \
	"ld.global.u32 %r1, [%rd1];\n"                                    \
	"st.global.u32 [%rd2], %r1;\n"                                    \
	"ret;\n"                                                          \
	"}\n"

/* wait(flag): spins until the word there is not 0 */
#define PTX_WAIT                                                   \
	".visible .entry wait(.param .u64 flag)\n"                 \
	"{\n"                                                      \
	".reg .pred %p<2>;\n.reg .b32 %r<2>;\n.reg .b64 %rd<2>;\n" \
	"ld.param.u64 %rd1, [flag];\n"                             \
	"AGAIN:\n"                                                 \
	"ld.volatile.global.u32 %r1, [%rd1];\n"                    \
	"setp.eq.u32 %p1, %r1, 0;\n"                               \
	"@%p1 bra AGAIN;\n"                                        \
	"ret;\n"                                                   \
	"}\n"

/* count(at): adds 1 to the word there, again and again, without end */
#define PTX_COUNT                                 \
	".visible .entry count(.param .u64 at)\n" \
	"{\n"                                     \
	".reg .b32 %r<2>;\n.reg .b64 %rd<2>;\n"   \
	"ld.param.u64 %rd1, [at];\n"              \
	"AGAIN:\n"                                \
	"ld.volatile.global.u32 %r1, [%rd1];\n"   \
	"add.u32 %r1, %r1, 1;\n"                  \
	"st.volatile.global.u32 [%rd1], %r1;\n"   \
	"bra AGAIN;\n"                            \
	"}\n"

/* stop(): trap */
#define PTX_STOP ".visible .entry stop()\n{\ntrap;\nret;\n}\n"

/* empty(): nothing; bounded(): the same, of at most 64 threads; static_shared(): 40000 */
#define PTX_EMPTY                                                    \
	".visible .entry empty()\n{\nret;\n}\n"                      \
	".visible .entry bounded()\n.maxntid 64, 1, 1\n{\nret;\n}\n" \
	".visible .entry static_shared()\n{\n"                       \
	".shared .align 4 .b8 room[40000];\n.reg .b32 %r<2>;\n"      \
	"mov.u32 %r1, 1;\n"                                          \
	"st.volatile.shared.u32 [room], %r1;\nret;\n}\n"

/* counter: a variable with a value; constants: constant memory; bump(): adds 1 */
#define PTX_VARIABLES                                               \
	".visible .global .align 4 .u32 counter = 41;\n"            \
	".visible .const .align 8 .b8 constants[16] = {1, 2, 3};\n" \
	".visible .entry bump()\n"                                  \
	"{\n"                                                       \
	".reg .b32 %r<3>;\n"                                        \
	"ld.global.u32 %r1, [counter];\n"                           \
	"add.u32 %r2, %r1, 1;\n"                                    \
	"st.global.u32 [counter], %r2;\n"                           \
	"ret;\n"                                                    \
	"}\n"

/* struct(a: 1 byte, b: 8 bytes, c: 20 bytes by value, d: 2 bytes) */
#define PTX_PARAMS                                            \
	".visible .entry params(.param .u8 a, .param .u64 b," \
	" .param .align 4 .b8 c[20], .param .u16 d)\n{\nret;\n}\n"

#define PTX_ALL                                                                    \
	PTX_HEAD PTX_SAXPY PTX_POKE PTX_PEEK PTX_WAIT PTX_COUNT PTX_STOP PTX_EMPTY \
		PTX_VARIABLES PTX_PARAMS
