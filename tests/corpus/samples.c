/* SPDX-License-Identifier: MIT */
/* The sample kernels that a user meets first give the right results. */
#include "corpus.h"

#include <string.h>

CORPUS(sample);

static float *numbers(size_t n, float step)
{
	float *values = malloc(n * sizeof(*values));

	for (size_t i = 0; i < n; i++)
		values[i] = (float)(i % 1000) * step;
	return values;
}

Test(sample, fill_sets_every_number)
{
	float value = 1.5f, got[1000];
	uint32_t n = 999;
	CUdeviceptr to;

	conform_context();
	to = corpus_put(NULL, sizeof(got));
	corpus_run(corpus_kernel("fill", "fill"), 4, 256, (void *[]){ &to, &value, &n });
	corpus_get(got, to, sizeof(got));
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(got[i], 1.5f);
	cr_assert_eq(got[n], 0);
}

static void saxpy(const char *file)
{
	const uint32_t n = 10000;
	_cleanup_free_ float *x = numbers(n, 1), *y = numbers(n, 3);
	CUdeviceptr at_x, at_y;
	float a = 2;

	conform_context();
	at_x = corpus_put(x, n * sizeof(*x));
	at_y = corpus_put(y, n * sizeof(*y));
	corpus_run(corpus_kernel(file, "saxpy"), (n + 255) / 256, 256,
		   (void *[]){ (void *)(uintptr_t)&n, &a, &at_x, &at_y });
	corpus_get(y, at_y, n * sizeof(*y));
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(y[i], (float)(i % 1000) * 5);
}

Test(sample, saxpy_adds_a_multiple)
{
	saxpy("saxpy");
}

Test(sample, saxpy_that_is_kept_compiled_does_too)
{
	saxpy("saxpy_kept");
}

Test(sample, reduce_adds_up)
{
	uint32_t n = 10000;
	_cleanup_free_ float *x = numbers(n, 1);
	float sum = 0, expected = 0;
	CUdeviceptr at_x, at_sum;

	conform_context();
	for (size_t i = 0; i < n; i++)
		expected += x[i];
	at_x = corpus_put(x, n * sizeof(*x));
	at_sum = corpus_put(NULL, sizeof(sum));
	corpus_run(corpus_kernel("reduce", "reduce"), 7, 256,
		   (void *[]){ &at_x, &at_sum, &n });
	corpus_get(&sum, at_sum, sizeof(sum));
	cr_assert_eq(sum, expected);
}

Test(sample, histogram_counts)
{
	uint32_t counts[256], expected[256] = { 0 }, n = 20000;
	_cleanup_free_ unsigned char *bytes = malloc(n);
	CUdeviceptr at_bytes, at_counts;

	conform_context();
	for (uint32_t i = 0; i < n; i++) {
		bytes[i] = (unsigned char)(i * i / 7);
		expected[bytes[i]]++;
	}
	at_bytes = corpus_put(bytes, n);
	at_counts = corpus_put(NULL, sizeof(counts));
	corpus_run(corpus_kernel("histogram", "histogram"), 5, 256,
		   (void *[]){ &at_bytes, &at_counts, &n });
	corpus_get(counts, at_counts, sizeof(counts));
	cr_assert(!memcmp(counts, expected, sizeof(counts)));
}

Test(sample, matmul_multiplies)
{
	enum { N = 50 };
	_cleanup_free_ float *a = numbers(N * N, 1), *b = numbers(N * N, 2);
	float c[N * N];
	uint32_t n = N;
	CUdeviceptr at[3];

	conform_context();
	at[0] = corpus_put(a, sizeof(c));
	at[1] = corpus_put(b, sizeof(c));
	at[2] = corpus_put(NULL, sizeof(c));
	OK(cuLaunchKernel, corpus_kernel("matmul", "matmul"), 4, 4, 1, 16, 16, 1, 0, NULL,
	   ((void *[]){ &at[0], &at[1], &at[2], &n }), NULL);
	corpus_get(c, at[2], sizeof(c));
	for (size_t row = 0; row < N; row++)
		for (size_t column = 0; column < N; column++) {
			double sum = 0;

			for (size_t i = 0; i < N; i++)
				sum += (double)a[row * N + i] * (double)b[i * N + column];
			cr_assert_float_eq((double)c[row * N + column], sum, sum * 1e-5);
		}
}

Test(sample, cooperative_grid_waits_for_itself)
{
	enum { N = 8 * 64, STEPS = 21 };
	uint32_t words[N], steps = STEPS;
	CUdeviceptr a, b;

	conform_context();
	for (uint32_t i = 0; i < N; i++)
		words[i] = i * 3;
	a = corpus_put(words, sizeof(words));
	b = corpus_put(NULL, sizeof(words));
	OK(cuLaunchCooperativeKernel, corpus_kernel("cooperative", "rotate"), 8, 1, 1, 64,
	   1, 1, 0, NULL, ((void *[]){ &a, &b, &steps }));
	OK(cuCtxSynchronize);
	corpus_get(words, STEPS % 2 ? b : a, sizeof(words));
	for (uint32_t i = 0; i < N; i++)
		cr_assert_eq(words[i], (i + STEPS) % N * 3);
}

static CUresult launch_cluster(unsigned int grid, unsigned int cluster, void **params)
{
	CUlaunchAttribute attribute = {
		.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
		.value.clusterDim = { cluster, 1, 1 },
	};
	const CUlaunchConfig config = {
		.gridDimX = grid,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 32,
		.blockDimY = 1,
		.blockDimZ = 1,
		.attrs = &attribute,
		.numAttrs = 1,
	};

	return driver->fn_cuLaunchKernelEx(&config, corpus_kernel("cluster", "exchange"),
					   params, NULL);
}

static void needs_clusters(void)
{
	int capability;

	conform_context();
	OK(cuDeviceGetAttribute, &capability,
	   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
	if (capability < 9)
		cr_skip_test("the device has no clusters");
}

Test(sample, blocks_of_a_cluster_read_each_other)
{
	enum { N = 8 * 32 };
	uint32_t out[N];
	CUdeviceptr to;

	needs_clusters();
	to = corpus_put(NULL, sizeof(out));
	cr_assert_eq(launch_cluster(8, 4, (void *[]){ &to }), CUDA_SUCCESS);
	OK(cuCtxSynchronize);
	corpus_get(out, to, sizeof(out));
	for (uint32_t i = 0; i < N; i++) {
		const uint32_t block = i / 32, next = block / 4 * 4 + (block + 1) % 4;

		cr_assert_eq(out[i], next * 1000 + 31 - i % 32);
	}
}

Test(sample, grid_that_is_no_multiple_of_its_clusters_is_refused)
{
	CUdeviceptr to;

	needs_clusters();
	to = corpus_put(NULL, 4096);
	cr_assert_eq(launch_cluster(7, 4, (void *[]){ &to }),
		     CUDA_ERROR_INVALID_CLUSTER_SIZE);
	cr_assert_eq(launch_cluster(16, 16, (void *[]){ &to }),
		     CUDA_ERROR_INVALID_CLUSTER_SIZE);
}
