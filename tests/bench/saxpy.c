/* SPDX-License-Identifier: MIT */
/*
 * saxpy through direct calls of a driver, in elements a second. On the software GPU the
 * figure shows the speed of the PTX interpreter, on hardware the speed of memory.
 */
#include "bench.h"

#include "base/text.h"
#include "cuda/driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK  256
#define ROUNDS 5

static const uint32_t sizes[] = { 1 << 10, 1 << 16, 1 << 20 };

static char *kernel_read(void)
{
	const char *path = getenv("GPUMEM_SAXPY");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	struct stat stat;
	char *text;

	if (fd < 0 || fstat(fd, &stat) < 0)
		die("GPUMEM_SAXPY names no kernel: %s", path ? path : "");
	text = calloc(1, (size_t)stat.st_size + 1);
	if (!text || read(fd, text, (size_t)stat.st_size) != stat.st_size)
		die("%s can't be read", path);
	close(fd);
	return text;
}

static CUfunction kernel_load(struct cuda_driver *driver)
{
	_cleanup_free_ char *text = kernel_read();
	CUcontext context;
	CUfunction function;
	CUmodule module;

	if (CUDA(driver, NULL, cuDevicePrimaryCtxRetain, &context, 0) < 0 ||
	    CUDA(driver, NULL, cuCtxSetCurrent, context) < 0 ||
	    CUDA(driver, NULL, cuModuleLoadDataEx, &module, text, 0, NULL, NULL) < 0 ||
	    CUDA(driver, NULL, cuModuleGetFunction, &function, module, "saxpy") < 0)
		die("saxpy can't be loaded");
	return function;
}

static double measure(struct cuda_driver *driver, CUfunction function, uint32_t n)
{
	double start, best = 0;
	CUdeviceptr x, y;
	float a = 2;

	if (CUDA(driver, NULL, cuMemAlloc_v2, &x, n * sizeof(float)) < 0 ||
	    CUDA(driver, NULL, cuMemAlloc_v2, &y, n * sizeof(float)) < 0)
		die("no memory for %u elements", n);
	for (int i = 0; i < ROUNDS; i++) {
		void *params[] = { &n, &a, &x, &y };
		double took;

		start = now_s();
		if (CUDA(driver, NULL, cuLaunchKernel, function, (n + BLOCK - 1) / BLOCK,
			 1, 1, BLOCK, 1, 1, 0, NULL, params, NULL) < 0 ||
		    CUDA(driver, NULL, cuCtxSynchronize) < 0)
			die("saxpy failed");
		took = now_s() - start;
		best = best == 0 || took < best ? took : best;
	}
	CUDA(driver, NULL, cuMemFree_v2, x);
	CUDA(driver, NULL, cuMemFree_v2, y);
	return n / best / 1e6;
}

int main(void)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct cuda_driver *driver;
	CUfunction function;

	if (cuda_driver_open(bench_library(), &driver, &why) < 0)
		die("%s", text_string(&why));
	function = kernel_load(driver);
	printf("saxpy, million elements a second, best of %d\n", ROUNDS);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		printf("%10u elements  %10.2f\n", sizes[i],
		       measure(driver, function, sizes[i]));
	return 0;
}
