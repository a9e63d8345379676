/* SPDX-License-Identifier: MIT */
/* Modules: images that load, images that are refused with a log, and functions. */
#include "conform.h"
#include "ptx.h"

#include <string.h>

SUITE(module);
SUITE(function);

static CUmodule module_load(const char *image)
{
	CUmodule module;

	OK(cuModuleLoadDataEx, &module, image, 0, NULL, NULL);
	return module;
}

static CUfunction function_get(CUmodule module, const char *name)
{
	CUfunction function;

	OK(cuModuleGetFunction, &function, module, name);
	return function;
}

/* Loads an image. Returns: the result; the text of the error log in said. */
static CUresult load_with_log(const char *image, char *said, size_t size)
{
	CUjit_option names[] = { CU_JIT_ERROR_LOG_BUFFER,
				 CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	void *values[] = { said, (void *)(uintptr_t)size };
	CUmodule module;

	*said = '\0';
	return driver->fn_cuModuleLoadDataEx(&module, image, 2, names, values);
}

Test(module, loads_ptx_and_unloads)
{
	CUmodule module;

	conform_context();
	module = module_load(PTX_ALL);
	OK(cuModuleUnload, module);
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload, NULL);
}

Test(module, bad_ptx_is_refused_with_the_line_in_the_log)
{
	static const char bad[] = PTX_HEAD ".visible .entry bad()\n{\n"
					   "frobnicate.u32 %r1, 2;\nret;\n}\n";
	char said[1024];

	conform_context();
	cr_assert_eq(load_with_log(bad, said, sizeof(said)), CUDA_ERROR_INVALID_PTX);
	cr_assert(strstr(said, "line 6"), "the log says: %s", said);
	cr_assert(strstr(said, "frobnicate"), "the log says: %s", said);
}

Test(module, log_is_cut_to_its_buffer)
{
	static const char bad[] = PTX_HEAD ".visible .entry bad()\n{\nfrobnicate;\n}\n";
	char said[16];

	conform_context();
	memset(said, 'x', sizeof(said));
	cr_assert_eq(load_with_log(bad, said, sizeof(said) - 4), CUDA_ERROR_INVALID_PTX);
	cr_assert(memchr(said, '\0', sizeof(said) - 4));
	cr_assert_eq(said[12], 'x');
}

Test(module, newer_ptx_than_the_driver_is_refused)
{
	char said[1024];

	conform_context();
	cr_assert_eq(load_with_log(".version 99.0\n.target sm_80\n.address_size 64\n"
				   ".visible .entry k()\n{\nret;\n}\n",
				   said, sizeof(said)),
		     CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
}

Test(module, functions_are_found_by_name)
{
	CUfunction function;
	CUmodule module, owner;

	conform_context();
	module = module_load(PTX_ALL);
	function = function_get(module, "saxpy");
	OK(cuFuncGetModule, &owner, function);
	cr_assert_eq(owner, module);
	FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction, &function, module, "sax");
	FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction, &function, module, "counter");
}

Test(module, functions_are_listed_with_their_names)
{
	CUfunction functions[16];
	bool seen = false;
	unsigned int n;
	CUmodule module;

	conform_context();
	module = module_load(PTX_ALL);
	OK(cuModuleGetFunctionCount, &n, module);
	cr_assert_eq(n, 11, "%u", n);
	OK(cuModuleEnumerateFunctions, functions, n, module);
	for (unsigned int i = 0; i < n; i++) {
		const char *name;

		OK(cuFuncGetName, &name, functions[i]);
		seen |= !strcmp(name, "saxpy");
	}
	cr_assert(seen);
}

Test(module, variables_have_address_size_and_value)
{
	CUdeviceptr counter, constants;
	unsigned char bytes[16];
	uint32_t value;
	size_t size;
	CUmodule module;

	conform_context();
	module = module_load(PTX_ALL);
	OK(cuModuleGetGlobal_v2, &counter, &size, module, "counter");
	cr_assert_eq(size, 4);
	OK(cuMemcpyDtoH_v2, &value, counter, 4);
	cr_assert_eq(value, 41);
	OK(cuModuleGetGlobal_v2, &constants, &size, module, "constants");
	cr_assert_eq(size, 16);
	OK(cuMemcpyDtoH_v2, bytes, constants, 16);
	cr_assert(bytes[0] == 1 && bytes[1] == 2 && bytes[2] == 3 && bytes[3] == 0);
	FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal_v2, &counter, &size, module,
	      "nothing");
	/* There, and no variable. */
	FAILS(CUDA_ERROR_INVALID_VALUE, cuModuleGetGlobal_v2, &counter, &size, module,
	      "saxpy");
}

Test(module, loaded_twice_has_variables_of_its_own)
{
	CUmodule first, second;
	CUdeviceptr address;
	uint32_t value;

	conform_context();
	first = module_load(PTX_ALL);
	second = module_load(PTX_ALL);
	OK(cuLaunchKernel, function_get(first, "bump"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL,
	   NULL);
	OK(cuCtxSynchronize);
	OK(cuModuleGetGlobal_v2, &address, NULL, first, "counter");
	OK(cuMemcpyDtoH_v2, &value, address, 4);
	cr_assert_eq(value, 42);
	OK(cuModuleGetGlobal_v2, &address, NULL, second, "counter");
	OK(cuMemcpyDtoH_v2, &value, address, 4);
	cr_assert_eq(value, 41);
}

Test(function, parameters_have_offset_and_size)
{
	static const struct {
		size_t offset;
		size_t size;
	} expected[] = { { 0, 1 }, { 8, 8 }, { 16, 20 }, { 36, 2 } };
	CUfunction function;
	size_t offset, size;

	conform_context();
	function = function_get(module_load(PTX_ALL), "params");
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		OK(cuFuncGetParamInfo, function, i, &offset, &size);
		cr_assert_eq(offset, expected[i].offset);
		cr_assert_eq(size, expected[i].size);
	}
	FAILS(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo, function, 4, &offset, &size);
}

static int attribute(CUfunction function, CUfunction_attribute which)
{
	int value = -1;

	OK(cuFuncGetAttribute, &value, which, function);
	return value;
}

Test(function, attributes_are_told)
{
	CUfunction function, bounded;
	CUmodule module;

	conform_context();
	module = module_load(PTX_ALL);
	function = function_get(module, "static_shared");
	bounded = function_get(module, "bounded");
	cr_assert_eq(attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 40000);
	cr_assert_eq(attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
	cr_assert_eq(attribute(function, CU_FUNC_ATTRIBUTE_PTX_VERSION), 80);
	cr_assert_eq(attribute(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES), 0);
	cr_assert_eq(attribute(bounded, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 64);
	cr_assert_gt(attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS), 0);
	cr_assert_geq(attribute(function, CU_FUNC_ATTRIBUTE_BINARY_VERSION), 50);
}

/* The function of that name in the list of a freshly loaded module. */
static CUfunction function_listed(CUmodule module, const char *name)
{
	CUfunction functions[16];
	const char *found;
	unsigned int n;

	OK(cuModuleGetFunctionCount, &n, module);
	OK(cuModuleEnumerateFunctions, functions, MIN(n, 16u), module);
	for (unsigned int i = 0; i < MIN(n, 16u); i++) {
		OK(cuFuncGetName, &found, functions[i]);
		if (!strcmp(found, name))
			return functions[i];
	}
	cr_assert(false, "%s is not listed", name);
	return NULL;
}

/* cuModuleGetFunction() would load the function, so the function comes from the list. */
Test(function, that_is_not_loaded_has_some_attributes_only)
{
	static const CUfunction_attribute missing[] = {
		CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
		CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES,
		CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
	};
	CUfunction function;
	CUmodule module;
	int value;

	setenv("CUDA_MODULE_LOADING", "LAZY", 1);
	conform_context();
	module = module_load(PTX_ALL);
	function = function_listed(module, "bounded");
	for (size_t i = 0; i < ARRAY_SIZE(missing); i++)
		FAILS(CUDA_ERROR_FUNCTION_NOT_LOADED, cuFuncGetAttribute, &value,
		      missing[i], function);
	cr_assert_gt(attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS), 0);
	function = function_get(module, "bounded");
	cr_assert_eq(attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 64);
}

/* As the worker loads them. */
Test(function, that_is_loaded_with_its_module_has_all_attributes)
{
	CUfunction function;

	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	conform_context();
	function = function_listed(module_load(PTX_ALL), "bounded");
	cr_assert_eq(attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 64);
	cr_assert_geq(attribute(function, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES), 0);
	cr_assert_gt(attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
		     0);
}
