/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include "ptx.h"
#include "softgpu.h"

#include <dlfcn.h>

uint32_t where(CUdeviceptr at)
{
	__typeof__(softgpu_where) *function =
		(__typeof__(softgpu_where) *)dlsym(driver->library, "softgpu_where");

	MUST(function != NULL);
	return function((const void *)(uintptr_t)at);
}

void host_access(CUdeviceptr at, size_t length, bool write)
{
	__typeof__(softgpu_host_access) *function =
		(__typeof__(softgpu_host_access) *)dlsym(driver->library,
							 "softgpu_host_access");

	MUST(function != NULL);
	function((const void *)(uintptr_t)at, length, write);
}

void advise(CUdeviceptr at, size_t size, CUmem_advise advice, CUdevice device)
{
	OK(cuMemAdvise, at, size, advice, device);
}

CUresult kernel_run(const char *name, CUstream stream, void **params)
{
	CUfunction function;
	CUmodule module;

	OK(cuModuleLoadDataEx, &module, PTX_ALL, 0, NULL, NULL);
	OK(cuModuleGetFunction, &function, module, name);
	OK(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
	return driver->fn_cuStreamSynchronize(stream);
}

CUresult kernel_write(CUdeviceptr at, CUstream stream)
{
	uint32_t value = 7;

	return kernel_run("poke", stream, (void *[]){ &at, &value });
}
