/* SPDX-License-Identifier: MIT */
#include "cuda/driver.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/text.h"

TestSuite(result, .timeout = 10);
TestSuite(driver, .timeout = 10);

static CUresult out_of_memory(CUdeviceptr *address, size_t size)
{
	(void)address;
	(void)size;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult succeeds(unsigned int flags)
{
	(void)flags;
	return CUDA_SUCCESS;
}

Test(result, has_its_name_and_errno)
{
	cr_assert_str_eq(cuda_result_name(CUDA_SUCCESS), "CUDA_SUCCESS");
	cr_assert_eq(cuda_result_errno(CUDA_SUCCESS), 0);
	cr_assert_str_eq(cuda_result_name(CUDA_ERROR_OUT_OF_MEMORY),
			 "CUDA_ERROR_OUT_OF_MEMORY");
	cr_assert_eq(cuda_result_errno(CUDA_ERROR_OUT_OF_MEMORY), ENOMEM);
	cr_assert_eq(cuda_result_errno(CUDA_ERROR_INVALID_VALUE), EINVAL);
	cr_assert_eq(cuda_result_errno(CUDA_ERROR_NO_DEVICE), ENODEV);
	cr_assert_eq(cuda_result_errno(CUDA_ERROR_ILLEGAL_ADDRESS), EFAULT);
	cr_assert_eq(cuda_result_errno(CUDA_ERROR_LAUNCH_FAILED), EIO);
	cr_assert_eq(cuda_result_errno(CUDA_ERROR_INVALID_PTX), ENOEXEC);
	cr_assert_eq(cuda_result_errno(CUDA_ERROR_NOT_SUPPORTED), EOPNOTSUPP);
}

Test(result, of_a_newer_driver_is_unknown_and_eio)
{
	cr_assert_str_eq(cuda_result_name(12345), "CUDA_ERROR_UNKNOWN");
	cr_assert_eq(cuda_result_errno(12345), EIO);
	cr_assert_not(cuda_result_is_sticky(12345));
}

Test(result, is_found_by_name)
{
	cr_assert_eq(cuda_result_find("CUDA_ERROR_ASSERT"), CUDA_ERROR_ASSERT);
	cr_assert_eq(cuda_result_find("CUDA_SUCCESS"), 0);
	cr_assert_eq(cuda_result_find("CUDA_ERROR_NO_SUCH"), -1);
}

Test(result, is_sticky_when_the_context_is_lost)
{
	cr_assert(cuda_result_is_sticky(CUDA_ERROR_ILLEGAL_ADDRESS));
	cr_assert(cuda_result_is_sticky(CUDA_ERROR_LAUNCH_FAILED));
	cr_assert(cuda_result_is_sticky(CUDA_ERROR_ASSERT));
	cr_assert_not(cuda_result_is_sticky(CUDA_SUCCESS));
	cr_assert_not(cuda_result_is_sticky(CUDA_ERROR_OUT_OF_MEMORY));
	cr_assert_not(cuda_result_is_sticky(CUDA_ERROR_NOT_READY));
}

/* cuMemAlloc and cuEventElapsedTime are macros of cuda.h: they must not get in here. */
Test(driver, rows_are_named_as_exported)
{
	cr_assert_str_eq(cuda_call_name(CUDA_ROW(cuMemAlloc_v2)), "cuMemAlloc_v2");
	cr_assert_str_eq(cuda_call_name(CUDA_ROW(cuEventElapsedTime)),
			 "cuEventElapsedTime");
	cr_assert_str_eq(cuda_call_name(CUDA_ROW(cuInit)), "cuInit");
	cr_assert_str_eq(cuda_call_name(-1), "");
	cr_assert_str_eq(cuda_call_name(CUDA_N_CALLS), "");
}

Test(driver, failed_call_tells_which_and_how)
{
	struct cuda_driver driver = { .fn_cuMemAlloc_v2 = out_of_memory };
	struct cuda_failure failure = CUDA_FAILURE_NONE;
	CUdeviceptr address;

	cr_assert_eq(CUDA(&driver, &failure, cuMemAlloc_v2, &address, 1), -ENOMEM);
	cr_assert_eq(failure.call, CUDA_ROW(cuMemAlloc_v2));
	cr_assert_eq(failure.result, CUDA_ERROR_OUT_OF_MEMORY);
	cr_assert_eq(CUDA(&driver, NULL, cuMemAlloc_v2, &address, 1), -ENOMEM);
}

Test(driver, success_leaves_the_failure_alone)
{
	struct cuda_driver driver = { .fn_cuInit = succeeds };
	struct cuda_failure failure = CUDA_FAILURE_NONE;

	cr_assert_eq(CUDA(&driver, &failure, cuInit, 0), 0);
	cr_assert_eq(failure.call, -1);
}

Test(driver, missing_call_is_not_supported)
{
	struct cuda_driver driver = { .fn_cuInit = succeeds };
	struct cuda_failure failure = CUDA_FAILURE_NONE;

	cr_assert_not(cuda_driver_has(&driver, CUDA_ROW(cuMemFreeAsync)));
	cr_assert(cuda_driver_has(&driver, CUDA_ROW(cuInit)));
	cr_assert_eq(CUDA(&driver, &failure, cuMemFreeAsync, 0, NULL), -EOPNOTSUPP);
	cr_assert_eq(failure.call, CUDA_ROW(cuMemFreeAsync));
}

Test(driver, missing_library_is_enoent_and_named)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct cuda_driver *driver = NULL;

	cr_assert_eq(cuda_driver_open("/nonexistent/libcuda.so.1", &driver, &why),
		     -ENOENT);
	cr_assert_null(driver);
	cr_assert(strstr(text_string(&why), "/nonexistent/libcuda.so.1"));
}

Test(driver, library_that_is_no_driver_is_told_by_the_symbol)
{
	_cleanup_text_ struct text why = TEXT_INIT;
	struct cuda_driver *driver = NULL;

	cr_assert_eq(cuda_driver_open("libc.so.6", &driver, &why), -EOPNOTSUPP);
	cr_assert_null(driver);
	cr_assert_not_null(
		strstr(text_string(&why),
		       "libc.so.6 has no cuInit: not a CUDA driver, or older than 12.2"));
}
