/* SPDX-License-Identifier: MIT */
/* Launches: results, checks before the launch, and order by streams. */
#include "conform.h"
#include "ptx.h"

#include <string.h>

SUITE(launch);

static CUmodule module;

static CUfunction kernel(const char *name)
{
	CUfunction function;

	if (!module)
		OK(cuModuleLoadDataEx, &module, PTX_ALL, 0, NULL, NULL);
	OK(cuModuleGetFunction, &function, module, name);
	return function;
}

static CUresult launch(const char *name, unsigned int grid, unsigned int block,
		       unsigned int shared, CUstream stream, void **params)
{
	return driver->fn_cuLaunchKernel(kernel(name), grid, 1, 1, block, 1, 1, shared,
					 stream, params, NULL);
}

/* n floats on the device, i * factor. */
static CUdeviceptr floats(size_t n, float factor)
{
	_cleanup_free_ float *values = malloc(n * sizeof(*values));
	CUdeviceptr at;

	for (size_t i = 0; i < n; i++)
		values[i] = (float)i * factor;
	OK(cuMemAlloc_v2, &at, n * sizeof(*values));
	OK(cuMemcpyHtoD_v2, at, values, n * sizeof(*values));
	return at;
}

static bool floats_are(CUdeviceptr at, size_t n, float factor)
{
	_cleanup_free_ float *values = malloc(n * sizeof(*values));

	OK(cuMemcpyDtoH_v2, values, at, n * sizeof(*values));
	for (size_t i = 0; i < n; i++)
		if (values[i] != (float)i * factor)
			return false;
	return true;
}

Test(launch, computes)
{
	uint32_t n = 100000;
	float a = 2;
	CUdeviceptr x, y;

	conform_context();
	x = floats(n, 1);
	y = floats(n, 3);
	cr_assert_eq(launch("saxpy", (n + 255) / 256, 256, 0, NULL,
			    (void *[]){ &n, &a, &x, &y }),
		     CUDA_SUCCESS);
	OK(cuCtxSynchronize);
	cr_assert(floats_are(y, n, 5));
	cr_assert(floats_are(x, n, 1));
}

Test(launch, takes_parameters_in_one_buffer)
{
	struct {
		uint32_t n;
		float a;
		CUdeviceptr x, y;
	} params = { 1000, 2, 0, 0 };
	size_t size = sizeof(params);
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, &params,
			  CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END };

	conform_context();
	params.x = floats(params.n, 1);
	params.y = floats(params.n, 3);
	OK(cuLaunchKernel, kernel("saxpy"), 8, 1, 1, 128, 1, 1, 0, NULL, NULL, extra);
	OK(cuCtxSynchronize);
	cr_assert(floats_are(params.y, params.n, 5));
}

Test(launch, of_a_shape_that_no_device_has_is_refused)
{
	CUfunction empty;

	conform_context();
	empty = kernel("empty");
	FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel, empty, 0, 1, 1, 1, 1, 1, 0, NULL,
	      NULL, NULL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel, empty, 1, 1, 1, 0, 1, 1, 0, NULL,
	      NULL, NULL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel, empty, 1, 1, 1, 1025, 1, 1, 0,
	      NULL, NULL, NULL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel, empty, 1, 1, 1, 32, 33, 1, 0,
	      NULL, NULL, NULL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel, empty, 1, 1, 1, 1, 1, 65, 0, NULL,
	      NULL, NULL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel, empty, 1, 65536, 1, 1, 1, 1, 0,
	      NULL, NULL, NULL);
	OK(cuLaunchKernel, empty, 1, 2, 3, 4, 5, 6, 0, NULL, NULL, NULL);
	OK(cuCtxSynchronize);
}

Test(launch, shared_memory_past_the_default_must_be_allowed_first)
{
	CUfunction empty;
	int most;

	conform_context();
	empty = kernel("empty");
	OK(cuDeviceGetAttribute, &most,
	   CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0);
	OK(cuLaunchKernel, empty, 1, 1, 1, 1, 1, 1, 48 << 10, NULL, NULL, NULL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel, empty, 1, 1, 1, 1, 1, 1,
	      (48 << 10) + 1, NULL, NULL, NULL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute, empty,
	      CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most + 1);
	OK(cuFuncSetAttribute, empty, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
	   most);
	OK(cuLaunchKernel, empty, 1, 1, 1, 1, 1, 1, (unsigned int)most, NULL, NULL, NULL);
	OK(cuCtxSynchronize);
}

Test(launch, static_and_dynamic_shared_memory_add_up)
{
	CUfunction function;

	conform_context();
	function = kernel("static_shared");
	OK(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 9152, NULL, NULL, NULL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 9153,
	      NULL, NULL, NULL);
	OK(cuCtxSynchronize);
}

Test(launch, cooperative_grid_must_be_resident_at_once)
{
	CUfunction empty;
	int blocks, processors;

	conform_context();
	empty = kernel("empty");
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, empty, 128, 0);
	OK(cuDeviceGetAttribute, &processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
	   0);
	OK(cuLaunchCooperativeKernel, empty, (unsigned int)(blocks * processors), 1, 1,
	   128, 1, 1, 0, NULL, NULL);
	FAILS(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, cuLaunchCooperativeKernel, empty,
	      (unsigned int)(blocks * processors + 1), 1, 1, 128, 1, 1, 0, NULL, NULL);
	OK(cuCtxSynchronize);
}

/*
 * Runs a kernel that waits for the program, and a second kernel beside the first.
 *
 * With lazy loading the first launch of a function loads it, and a load waits for all
 * running kernels: here for ever. So the function is loaded before, by name or with its
 * module.
 */
static void run_beside(void)
{
	CUstream stream, other;
	uint32_t *flag;
	CUdeviceptr at;

	kernel("wait");
	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	OK(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
	OK(cuMemHostAlloc, (void **)&flag, 4, CU_MEMHOSTALLOC_DEVICEMAP);
	OK(cuMemHostGetDevicePointer_v2, &at, flag, 0);
	__atomic_store_n(flag, 0, __ATOMIC_SEQ_CST);
	cr_assert_eq(launch("wait", 1, 32, 0, stream, (void *[]){ &at }), CUDA_SUCCESS);
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery, stream);
	cr_assert_eq(launch("empty", 1, 32, 0, other, NULL), CUDA_SUCCESS);
	OK(cuStreamSynchronize, other);
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery, stream);
	__atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
	OK(cuStreamSynchronize, stream);
}

Test(launch, runs_beside_its_caller)
{
	conform_context();
	kernel("empty");
	run_beside();
}

/* The worker relies on this. */
Test(launch, of_a_function_loaded_with_its_module_waits_for_no_other)
{
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	conform_context();
	run_beside();
}

Test(launch, comes_after_what_its_stream_had_before)
{
	CUstream stream;
	CUdeviceptr from, to;
	uint32_t value = 0;

	conform_context();
	OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	OK(cuMemAlloc_v2, &from, 4);
	OK(cuMemAlloc_v2, &to, 4);
	OK(cuMemsetD32Async, from, 7, 1, stream);
	cr_assert_eq(launch("peek", 1, 1, 0, stream, (void *[]){ &from, &to }),
		     CUDA_SUCCESS);
	OK(cuMemsetD32Async, from, 8, 1, stream);
	OK(cuStreamSynchronize, stream);
	OK(cuMemcpyDtoH_v2, &value, to, 4);
	cr_assert_eq(value, 7);
}

/*
 * A copy of a few bytes may still be under way when its call returns. Access is reduced
 * only after the copy's end; otherwise the copy and all later calls would fail.
 */
Test(launch, reads_memory_that_is_mapped_to_be_read)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at, to;
	uint32_t value;

	conform_context();
	kernel("peek");
	handle = memory_create(2 * MIB);
	at = address_reserve(2 * MIB, 0);
	memory_map(at, 2 * MIB, handle, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	words_write(at, 77, 1);
	OK(cuCtxSynchronize);
	memory_access(at, 2 * MIB, CU_MEM_ACCESS_FLAGS_PROT_READ);
	OK(cuMemAlloc_v2, &to, 4);
	cr_assert_eq(launch("peek", 1, 1, 0, NULL, (void *[]){ &at, &to }), CUDA_SUCCESS);
	OK(cuMemcpyDtoH_v2, &value, to, 4);
	cr_assert_eq(value, 77);
}

Test(launch, with_a_handle_of_something_else_is_refused)
{
	conform_context();
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel, NULL, 1, 1, 1, 1, 1, 1, 0, NULL,
	      NULL, NULL);
}

/* A mapping of device 0's memory, for device 1 alone. */
Test(launch, uses_what_is_mapped_for_its_own_device)
{
	const CUmemAccessDesc other = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemGenericAllocationHandle handle;
	CUcontext context;
	uint32_t value = 5;
	CUdeviceptr at;

	conform_open();
	conform_need_devices(2);
	OK(cuDevicePrimaryCtxRetain, &context, 1);
	OK(cuCtxSetCurrent, context);
	handle = memory_create(2 * MIB);
	at = address_reserve(2 * MIB, 0);
	OK(cuMemMap, at, 2 * MIB, 0, handle, 0);
	OK(cuMemSetAccess, at, 2 * MIB, &other, 1);
	cr_assert_eq(launch("poke", 1, 1, 0, NULL, (void *[]){ &at, &value }),
		     CUDA_SUCCESS);
	OK(cuCtxSynchronize);
	cr_assert(words_match(at, 5, 1));
}
