/* SPDX-License-Identifier: MIT */
/* Images as nvcc packs them: fat binaries with PTX, packed and not, and a cubin. */
#include "corpus.h"

#include <string.h>

CORPUS(images);

static CUresult load(const char *file, CUmodule *ret, char *said, size_t size)
{
	CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER,
				   CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	void *values[] = { said, (void *)(uintptr_t)size };
	_cleanup_free_ char *image = corpus_read(file);

	*said = '\0';
	return driver->fn_cuModuleLoadDataEx(ret, image, 2, options, values);
}

static void runs(const char *file)
{
	CUfunction function;
	char said[512];
	float x = 3, y = 4, a = 2;
	uint32_t n = 1;
	CUdeviceptr at_x, at_y;
	CUmodule module;
	CUresult result;

	conform_context();
	result = load(file, &module, said, sizeof(said));
	if (strstr(said, "not built in"))
		cr_skip_test("the software GPU was built without libzstd");
	cr_assert_eq(result, CUDA_SUCCESS, "%s: %d: %s", file, result, said);
	OK(cuModuleGetFunction, &function, module, "saxpy");
	at_x = corpus_put(&x, sizeof(x));
	at_y = corpus_put(&y, sizeof(y));
	corpus_run(function, 1, 1, (void *[]){ &n, &a, &at_x, &at_y });
	corpus_get(&y, at_y, sizeof(y));
	cr_assert_eq(y, 10);
}

Test(images, fat_binary_runs)
{
	runs("plain.fatbin");
}

Test(images, packed_fat_binary_runs)
{
	runs("packed.fatbin");
}

/* A cubin of another architecture than the device's, which every driver refuses. */
Test(images, cubin_for_another_device_is_refused)
{
	char said[512];
	CUmodule module;

	conform_context();
	cr_assert_eq(load("other.cubin", &module, said, sizeof(said)),
		     CUDA_ERROR_NO_BINARY_FOR_GPU);
}

Test(images, fat_binary_of_a_cubin_for_another_device_is_refused)
{
	char said[512];
	CUmodule module;

	conform_context();
	cr_assert_eq(load("other.fatbin", &module, said, sizeof(said)),
		     CUDA_ERROR_NO_BINARY_FOR_GPU);
}
