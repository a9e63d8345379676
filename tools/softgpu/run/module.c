/* SPDX-License-Identifier: MIT */
/*
 * Modules: the first bytes tell the kind of an image, the PTX is parsed, the variables
 * get a piece of the context's memory. Functions are loaded when they are first asked for
 * by name or launched, unless CUDA_MODULE_LOADING is EAGER.
 *
 * The parser's words about a bad image go into the caller's log, and the result is that
 * of hardware: no cubin runs here, and no PTX newer than the driver's version.
 */
#include "module.h"

#include "image.h"
#include "print.h"
#include "softgpu/context.h"
#include "softgpu/memory/space.h"
#include "stream.h"

#include <errno.h>
#include <string.h>

/* Shared memory of a block: without asking, and the most on request. */
#define SHARED_DEFAULT 49152U
#define SHARED_OPT_IN  232448U

struct module {
	struct module *next;
	struct context *context;
	struct ptx_module *ptx;
	struct range *range; /* its variables; NULL where it has none */
	struct function *functions;
	size_t n_functions;
};

static struct module *modules; /* under the library's lock */

static CUresult module_find(CUmodule handle, struct module **ret)
{
	struct module *module = modules;

	while (module && handle != (CUmodule)module)
		module = module->next;
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = module;
	return CUDA_SUCCESS;
}

CUresult function_find(CUfunction handle, struct function **ret)
{
	const uintptr_t at = (uintptr_t)handle;

	for (struct module *module = modules; module; module = module->next) {
		const uintptr_t first = (uintptr_t)module->functions;
		const size_t n = (at - first) / sizeof(struct function);

		if (at < first || n >= module->n_functions ||
		    (at - first) % sizeof(struct function))
			continue;
		*ret = &module->functions[n];
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_HANDLE;
}

CUresult function_load(CUfunction handle, struct function **ret)
{
	CUresult result = function_find(handle, ret);

	if (result || (*ret)->loaded)
		return result;
	streams_drain(function_context(*ret));
	result = function_find(handle, ret);
	if (!result)
		(*ret)->loaded = true;
	return result;
}

struct context *function_context(const struct function *function)
{
	return function->module->context;
}

/* The newest PTX of a driver, by the version that cuDriverGetVersion tells. */
static unsigned int ptx_version(int driver)
{
	static const struct {
		int driver;
		unsigned int ptx;
	} versions[] = {
		{ 13010, 91 }, { 13000, 90 }, { 12090, 88 }, { 12080, 87 }, { 12070, 86 },
		{ 12050, 85 }, { 12040, 84 }, { 12030, 83 }, { 12020, 82 }, { 12010, 81 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (driver >= versions[i].driver)
			return versions[i].ptx;
	return 80;
}

static CUresult module_parse(const char *text, size_t length, struct ptx_module **ret,
			     struct text *log)
{
	const struct ptx_target target = {
		.version = ptx_version(options.version),
		.capability = (unsigned int)(options.capability_major * 10 +
					     options.capability_minor),
	};

	switch (ptx_module_new(text, length, &target, ret, log)) {
	case 0:
		return CUDA_SUCCESS;
	case -ENOTSUP:
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	case -ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	default:
		return CUDA_ERROR_INVALID_PTX;
	}
}

static void module_free(struct module *module)
{
	struct heap *heap = &module->context->heap;

	if (module->range) {
		const uint64_t address = module->range->start;

		space_remove(module->range);
		heap_free(heap, address);
		heap_trim(heap, 0);
	}
	ptx_module_free(module->ptx);
	free(module->functions);
	free(module);
}

static CUresult module_place(struct module *module)
{
	struct heap *heap = &module->context->heap;
	struct range range = {
		.size = ptx_module_size(module->ptx),
		.kind = RANGE_MODULE,
		.device = module->context->device,
		.context = module->context,
		.owner = heap,
	};

	if (range.size && heap_alloc(heap, range.size, &range.start) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (range.size) {
		module->range = space_add(&range);
		if (!module->range) {
			heap_free(heap, range.start);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	return ptx_module_place(module->ptx, range.start) < 0 ? CUDA_ERROR_OUT_OF_MEMORY
							      : CUDA_SUCCESS;
}

static CUresult module_list(struct module *module)
{
	size_t n = 0;

	while (ptx_module_kernel(module->ptx, n))
		n++;
	module->functions = calloc(n + 1, sizeof(*module->functions));
	if (!module->functions)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < n; i++) {
		struct function *function = &module->functions[i];

		function->module = module;
		function->ptx = ptx_module_kernel(module->ptx, i);
		function->kernel = ptx_kernel_of(function->ptx);
		function->max_dynamic =
			SHARED_DEFAULT -
			MIN(SHARED_DEFAULT, function->kernel->shared_size);
		function->carveout = -1;
		function->loaded = options.eager;
	}
	module->n_functions = n;
	return CUDA_SUCCESS;
}

static CUresult module_load(const void *image, CUmodule *ret, struct text *log)
{
	_cleanup_free_ char *unpacked = NULL;
	struct module *module;
	const char *text;
	size_t length;
	CUresult result = image_ptx(image, &text, &length, &unpacked, log);

	if (result)
		return result;
	module = calloc(1, sizeof(*module));
	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	module->context = context_current();
	result = module_parse(text, length, &module->ptx, log);
	if (!result)
		result = module_place(module);
	if (!result)
		result = module_list(module);
	if (result) {
		module_free(module);
		return result;
	}
	module->next = modules;
	modules = module;
	*ret = (CUmodule)module;
	return CUDA_SUCCESS;
}

static void module_end(struct module *module)
{
	struct module **link = &modules;

	while (*link != module)
		link = &(*link)->next;
	*link = module->next;
	module_free(module);
}

void modules_end_context(const struct context *context)
{
	struct module *next;

	for (struct module *module = modules; module; module = next) {
		next = module->next;
		if (module->context == context)
			module_end(module);
	}
}

/* The options of a load about logs: each a buffer, and the size of the buffer. */
struct logs {
	char *buffers[2]; /* information, errors */
	size_t sizes[2];
	void **values[2]; /* where the size is to be said */
};

static void logs_read(struct logs *logs, unsigned int n, const CUjit_option *names,
		      void **values)
{
	for (unsigned int i = 0; i < n; i++) {
		const size_t number = (size_t)(uintptr_t)values[i];

		switch ((int)names[i]) {
		case CU_JIT_INFO_LOG_BUFFER:
			logs->buffers[0] = values[i];
			break;
		case CU_JIT_ERROR_LOG_BUFFER:
			logs->buffers[1] = values[i];
			break;
		case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
			logs->sizes[0] = (unsigned int)number;
			logs->values[0] = &values[i];
			break;
		case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
			logs->sizes[1] = (unsigned int)number;
			logs->values[1] = &values[i];
			break;
		default:
			/* The others advise the compiler. */
			break;
		}
	}
}

static void log_write(const struct logs *logs, int which, const char *said)
{
	const size_t size = logs->sizes[which];
	size_t length = 0;

	if (logs->buffers[which] && size) {
		length = MIN(strlen(said), size - 1);
		memcpy(logs->buffers[which], said, length);
		logs->buffers[which][length] = '\0';
	}
	if (logs->values[which])
		*logs->values[which] = (void *)(uintptr_t)length;
}

CALL(cuModuleLoadDataEx, NEED_CONTEXT,
     (CUmodule * ret, const void *image, unsigned int n, CUjit_option *names,
      void **values),
     (ret, image, n, names, values))
{
	_cleanup_text_ struct text log = TEXT_INIT;
	struct logs logs = { { NULL } };
	CUresult result;

	if (!ret || !image || (n && (!names || !values)))
		return CUDA_ERROR_INVALID_VALUE;
	logs_read(&logs, n, names, values);
	result = module_load(image, ret, &log);
	log_write(&logs, 0, "");
	log_write(&logs, 1, text_string(&log));
	return result;
}

CALL(cuModuleUnload, NEED_CONTEXT, (CUmodule handle), (handle))
{
	struct module *module;
	CUresult result = module_find(handle, &module);

	if (result)
		return result;
	streams_drain(module->context);
	prints_flush();
	result = module_find(handle, &module);
	if (!result)
		module_end(module);
	return result;
}

/* NULL: there is none of that name. */
static struct function *module_kernel(const struct module *module, const char *name)
{
	for (size_t i = 0; i < module->n_functions; i++)
		if (!strcmp(module->functions[i].kernel->name, name))
			return &module->functions[i];
	return NULL;
}

CALL(cuModuleGetFunction, NEED_CONTEXT,
     (CUfunction * ret, CUmodule handle, const char *name), (ret, handle, name))
{
	struct function *function;
	struct module *module;
	CUresult result = module_find(handle, &module);

	if (result)
		return result;
	if (!ret || !name)
		return CUDA_ERROR_INVALID_VALUE;
	function = module_kernel(module, name);
	if (!function)
		return CUDA_ERROR_NOT_FOUND;
	result = function_load((CUfunction)function, &function);
	if (!result)
		*ret = (CUfunction)function;
	return result;
}

CALL(cuModuleGetGlobal_v2, NEED_CONTEXT,
     (CUdeviceptr * ret_address, size_t *ret_size, CUmodule handle, const char *name),
     (ret_address, ret_size, handle, name))
{
	struct module *module;
	uint64_t address, size;
	CUresult result = module_find(handle, &module);

	if (result)
		return result;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	if (module_kernel(module, name))
		return CUDA_ERROR_INVALID_VALUE;
	if (!ptx_module_variable(module->ptx, name, &address, &size))
		return CUDA_ERROR_NOT_FOUND;
	if (ret_address)
		*ret_address = address;
	if (ret_size)
		*ret_size = size;
	return CUDA_SUCCESS;
}

CALL(cuModuleGetFunctionCount, NEED_CONTEXT, (unsigned int *ret, CUmodule handle),
     (ret, handle))
{
	struct module *module;
	CUresult result = module_find(handle, &module);

	if (result)
		return result;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (unsigned int)module->n_functions;
	return CUDA_SUCCESS;
}

CALL(cuModuleEnumerateFunctions, NEED_CONTEXT,
     (CUfunction * ret, unsigned int n, CUmodule handle), (ret, n, handle))
{
	struct module *module;
	CUresult result = module_find(handle, &module);

	if (result)
		return result;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < MIN((size_t)n, module->n_functions); i++)
		ret[i] = (CUfunction)&module->functions[i];
	return CUDA_SUCCESS;
}

CALL(cuFuncGetName, NEED_CONTEXT, (const char **ret, CUfunction handle), (ret, handle))
{
	struct function *function;
	CUresult result = function_find(handle, &function);

	if (result)
		return result;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = function->kernel->name;
	return CUDA_SUCCESS;
}

CALL(cuFuncGetModule, NEED_CONTEXT, (CUmodule * ret, CUfunction handle), (ret, handle))
{
	struct function *function;
	CUresult result = function_find(handle, &function);

	if (result)
		return result;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (CUmodule)function->module;
	return CUDA_SUCCESS;
}

CALL(cuFuncGetParamInfo, NEED_CONTEXT,
     (CUfunction handle, size_t index, size_t *ret_offset, size_t *ret_size),
     (handle, index, ret_offset, ret_size))
{
	struct function *function;
	CUresult result = function_find(handle, &function);

	if (result)
		return result;
	if (!ret_offset || index >= function->kernel->n_params)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_offset = function->kernel->params[index].offset;
	if (ret_size)
		*ret_size = function->kernel->params[index].size;
	return CUDA_SUCCESS;
}

uint32_t function_max_threads(const struct function *function)
{
	const struct ptx_dim max = function->kernel->max_block;
	const struct ptx_dim required = function->kernel->required;

	if (required.x)
		return required.x * required.y * required.z;
	return max.x ? MIN(1024U, max.x * max.y * max.z) : 1024;
}

/* Attributes known only after the load. */
static bool attribute_needs_code(CUfunction_attribute attribute)
{
	return attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ||
	       attribute == CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES ||
	       attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
}

CALL(cuFuncGetAttribute, NEED_CONTEXT,
     (int *ret, CUfunction_attribute attribute, CUfunction handle),
     (ret, attribute, handle))
{
	struct function *function;
	const struct ptx_kernel *kernel;
	struct ptx_target target;
	CUresult result = function_find(handle, &function);

	if (result)
		return result;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function->loaded && attribute_needs_code(attribute))
		return CUDA_ERROR_FUNCTION_NOT_LOADED;
	kernel = function->kernel;
	target = ptx_module_target(function->module->ptx);
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*ret = (int)function_max_threads(function);
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*ret = (int)kernel->shared_size;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
		*ret = (int)kernel->const_size;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		*ret = (int)kernel->local_size;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*ret = (int)kernel->n_registers;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
		*ret = (int)target.capability;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*ret = options.capability_major * 10 + options.capability_minor;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
		*ret = 0;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*ret = (int)function->max_dynamic;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*ret = function->carveout;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
		*ret = function->needs_cluster;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
		*ret = (int)kernel->cluster.x;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
		*ret = (int)kernel->cluster.y;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		*ret = (int)kernel->cluster.z;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		*ret = function->non_portable_cluster;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		*ret = function->cluster_policy;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CALL(cuFuncSetAttribute, NEED_CONTEXT,
     (CUfunction handle, CUfunction_attribute attribute, int value),
     (handle, attribute, value))
{
	struct function *function;
	CUresult result = function_find(handle, &function);

	if (result)
		return result;
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 ||
		    (uint32_t)value > SHARED_OPT_IN - function->kernel->shared_size)
			return CUDA_ERROR_INVALID_VALUE;
		function->max_dynamic = (uint32_t)value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if (value < -1 || value > 100)
			return CUDA_ERROR_INVALID_VALUE;
		function->carveout = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		function->non_portable_cluster = value != 0;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
		function->needs_cluster = value != 0;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		function->cluster_policy = value;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}
