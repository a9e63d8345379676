/* SPDX-License-Identifier: MIT */
/*
 * Copies and fills of memory while a kernel writes there. The thread sanitizer reports
 * none of it: a program's race on the GPU is no race of the software GPU.
 */
#include "conform.h"

#include "ptx.h"

SUITE(unordered);

#define N_TIMES 200

/* write(words): writes the second word until the first one is not 0 */
static const char text[] =
	PTX_HEAD ".visible .entry write(.param .u64 words)\n"
		 "{\n"
		 ".reg .pred %p<2>;\n.reg .b32 %r<3>;\n.reg .b64 %rd<2>;\n"
		 "ld.param.u64 %rd1, [words];\n"
		 "mov.u32 %r2, 0;\n"
		 "AGAIN:\n"
		 "add.u32 %r2, %r2, 1;\n"
		 "st.global.u32 [%rd1+4], %r2;\n"
		 "ld.volatile.global.u32 %r1, [%rd1];\n"
		 "setp.eq.u32 %p1, %r1, 0;\n"
		 "@%p1 bra AGAIN;\n"
		 "ret;\n"
		 "}\n";

static CUdeviceptr words;
static CUstream kernels, copies;

static void start_kernel(void)
{
	void *params[] = { &words };
	CUfunction function;
	CUmodule module;

	conform_context();
	OK(cuMemAlloc_v2, &words, 2 * sizeof(uint32_t));
	OK(cuMemsetD32_v2, words, 0, 2);
	OK(cuModuleLoadDataEx, &module, text, 0, NULL, NULL);
	OK(cuModuleGetFunction, &function, module, "write");
	OK(cuStreamCreate, &kernels, CU_STREAM_NON_BLOCKING);
	OK(cuStreamCreate, &copies, CU_STREAM_NON_BLOCKING);
	OK(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, kernels, params, NULL);
}

static void end_kernel(void)
{
	OK(cuMemsetD32Async, words, 1, 1, copies);
	OK(cuStreamSynchronize, kernels);
}

Test(unordered, copies_beside_a_kernel_that_writes)
{
	uint32_t seen = 0;

	start_kernel();
	for (int i = 0; i < N_TIMES || !seen; i++)
		OK(cuMemcpyDtoHAsync_v2, &seen, words + 4, sizeof(seen), copies);
	end_kernel();
}

Test(unordered, fills_beside_a_kernel_that_writes)
{
	start_kernel();
	for (int i = 0; i < N_TIMES; i++) {
		OK(cuMemsetD32Async, words + 4, 0, 1, copies);
		OK(cuStreamSynchronize, copies);
	}
	end_kernel();
}
