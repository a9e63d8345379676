/* SPDX-License-Identifier: MIT */
/*
 * Kernels that affect their process: they print, or end the process. Each kernel runs in
 * a separate process.
 */
#include "corpus.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

CORPUS(output);
CORPUS(fault);

/* Its stdout is the socket. */
static void print_child(int socket)
{
	int number = 7;

	MUST(dup2(socket, STDOUT_FILENO) == STDOUT_FILENO);
	conform_context();
	OK(cuLaunchKernel, corpus_kernel("print", "greet"), 1, 1, 1, 2, 1, 1, 0, NULL,
	   ((void *[]){ &number }), NULL);
	OK(cuCtxSynchronize);
	fflush(stdout);
}

Test(output, comes_out_when_it_is_waited_for)
{
	char said[512] = "";
	struct child child;
	ssize_t n, length = 0;

	child_start(&child, print_child);
	while ((n = read(child.socket, said + length,
			 sizeof(said) - 1 - (size_t)length)) > 0)
		length += n;
	child_finish(&child);
	cr_assert_str_eq(said, "block 0 thread 0: 7 words  1.75 123456789abc c%\n"
			       "block 0 thread 1: 7 words  1.75 123456789abc c%\n");
}

struct faulty {
	const char *kernel;
	CUresult result;
	int offset; /* of what it is given */
};

static const struct faulty *faulty;

static void fault_child(int socket)
{
	unsigned long long wild = 0x600000000000;
	CUdeviceptr at;
	int number;
	void *params[1];

	(void)socket;
	conform_context();
	at = corpus_put(NULL, 4096);
	number = faulty->offset;
	params[0] = !strcmp(faulty->kernel, "wild") ? (void *)&wild
		    : !strcmp(faulty->kernel, "misaligned") ||
				    !strcmp(faulty->kernel, "bottomless")
			    ? (void *)&at
			    : (void *)&number;
	OK(cuLaunchKernel, corpus_kernel("faults", faulty->kernel), 1, 1, 1, 1, 1, 1, 0,
	   NULL, params, NULL);
	FAILS(faulty->result, cuCtxSynchronize);
	FAILS(faulty->result, cuMemAlloc_v2, &at, 4096);
}

static void fault(const struct faulty *which)
{
	struct child child;

	faulty = which;
	child_start(&child, fault_child);
	child_finish(&child);
}

Test(fault, wild_store_is_an_illegal_address)
{
	fault(&(struct faulty){ "wild", CUDA_ERROR_ILLEGAL_ADDRESS, 0 });
}

Test(fault, misaligned_store_is_told_apart)
{
	fault(&(struct faulty){ "misaligned", CUDA_ERROR_MISALIGNED_ADDRESS, 0 });
}

Test(fault, trap_fails_the_launch)
{
	fault(&(struct faulty){ "trap", CUDA_ERROR_LAUNCH_FAILED, 0 });
}

Test(fault, failed_assert_is_told_apart)
{
	fault(&(struct faulty){ "failing_assert", CUDA_ERROR_ASSERT, 41 });
}
