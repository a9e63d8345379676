/* SPDX-License-Identifier: MIT */
/* Lines of the driver's log about kernels that fault. */
#include "conform.h"

#include <string.h>

SUITE(faults);

#define ALONE ((CUdeviceptr)0x600000000000)

/* The kernels' lines are those of these notes. */
static const char text[] =
	".version 7.0\n.target sm_80\n.address_size 64\n"
	".visible .entry noted(.param .u64 p)\n{\n"
	".reg .b64 %a<4>; .reg .b32 %r<4>;\n"
	".loc 1 10 0\n"
	"ld.param.u64 %a1, [p];\n"
	".loc 1 12 3\n"
	"mov.u32 %r1, %tid.x;\n"
	"mov.u32 %r2, %ctaid.y;\n"
	"mul.wide.u32 %a2, %r1, 8;\n"
	"add.u64 %a1, %a1, %a2;\n"
	".loc 2 7 1, function_name $L__info_string0, inlined_at 1 13 5\n"
	"st.global.u64 [%a1], %a2;\n"
	"ret;\n}\n"
	".visible .entry vector(.param .u64 p)\n{\n"
	".reg .b64 %a<4>; .reg .b32 %r<5>;\n"
	"ld.param.u64 %a1, [p];\n"
	".loc 1 20 3\n"
	"ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%a1];\n"
	"ret;\n}\n"
	".visible .entry add(.param .u64 p)\n{\n"
	".reg .b64 %a<4>; .reg .b32 %r<5>;\n"
	"ld.param.u64 %a1, [p];\n"
	".loc 9 21 3\n"
	"atom.global.add.u32 %r1, [%a1], 1;\n"
	"ret;\n}\n"
	".visible .entry plain(.param .u64 p)\n{\n"
	".reg .b64 %a<4>;\n"
	"ld.param.u64 %a1, [p];\n"
	"st.global.u8 [%a1], 1;\n"
	"ret;\n}\n"
	".visible .entry shared(.param .u64 p)\n{\n"
	".reg .b64 %a<4>; .shared .b32 room[4];\n"
	"ld.param.u64 %a1, [p];\n"
	"st.shared.u32 [%a1], 1;\n"
	"ret;\n}\n"
	".visible .entry stop(.param .u64 p)\n{\n"
	".loc 1 30 3\n"
	"trap;\n"
	"ret;\n}\n"
	".file 1 \"/home/me/src/kernel.cu\"\n"
	".file 2 \"mean.h\", 1700000000, 99\n";

static char said[1024]; /* all messages, a line each */

static void note(void *data, CUlogLevel level, char *message, size_t length)
{
	MUST(data == said);
	MUST(level == CU_LOG_LEVEL_ERROR);
	MUST(length == strlen(message));
	strncat(said, message, sizeof(said) - strlen(said) - 2);
	strcat(said, "\n");
}

/* Launches a kernel that faults, on three blocks of 64 threads. */
static void expect(const char *kernel, CUdeviceptr at, CUresult result, const char *words)
{
	CUlogsCallbackHandle handle;
	CUfunction function;
	CUmodule module;

	conform_context();
	OK(cuLogsRegisterCallback, note, said, &handle);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuLogsRegisterCallback, NULL, NULL, &handle);
	OK(cuModuleLoadDataEx, &module, text, 0, NULL, NULL);
	OK(cuModuleGetFunction, &function, module, kernel);
	OK(cuLaunchKernel, function, 1, 3, 1, 64, 1, 1, 0, NULL, (void *[]){ &at }, NULL);
	FAILS(result, cuCtxSynchronize);
	cr_assert(!strncmp(said, words, strlen(words)), "%s", said);
	cr_assert_eq(strchr(said, '\n'), said + strlen(said) - 1, "%s", said);
}

Test(faults, access_has_its_address_and_its_line)
{
	expect("vector", ALONE, CUDA_ERROR_ILLEGAL_ADDRESS,
	       "a load of 16 bytes at 0x600000000000, kernel.cu:20, "
	       "block 0,");
}

Test(faults, inlined_function_has_both_lines)
{
	expect("noted", ALONE, CUDA_ERROR_ILLEGAL_ADDRESS,
	       "a store of 8 bytes at 0x600000000000, mean.h:7, inlined "
	       "at kernel.cu:13, block 0,");
}

Test(faults, atomic_operation_is_told_apart_and_an_unknown_file_is_a_question_mark)
{
	expect("add", ALONE, CUDA_ERROR_ILLEGAL_ADDRESS,
	       "an atomic operation of 4 bytes at 0x600000000000, ?:21, "
	       "block 0,");
}

Test(faults, line_of_the_ptx_stands_for_an_unknown_line)
{
	expect("plain", ALONE, CUDA_ERROR_ILLEGAL_ADDRESS,
	       "a store of 1 byte at 0x600000000000, line 38 of the PTX, "
	       "block 0,");
}

Test(faults, misaligned_access_is_told_apart)
{
	expect("vector", ALONE + 8, CUDA_ERROR_MISALIGNED_ADDRESS,
	       "a misaligned load of 16 bytes at 0x600000000008, "
	       "kernel.cu:20, block 0,");
}

Test(faults, shared_memory_has_its_size)
{
	expect("shared", 16, CUDA_ERROR_ILLEGAL_ADDRESS,
	       "a store of 4 bytes at byte 16 of shared memory, which has "
	       "16, line 45 of the PTX, block 0,");
}

Test(faults, trap_has_its_line)
{
	expect("stop", 0, CUDA_ERROR_LAUNCH_FAILED, "a trap, kernel.cu:30, block 0,");
}
