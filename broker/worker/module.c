/* SPDX-License-Identifier: MIT */
/*
 * Modules.
 *
 * Compiling PTX may take seconds, so the thread that receives must not load modules. But
 * requests behind a LOAD may use its module at once. So the module is noted when its LOAD
 * is received, and loaded by the first thread that needs it, for the LOAD or for a
 * launch. No thread waits for a request still in the queue. Other threads wait for the
 * thread that loads. After a failed load the next user tries again.
 *
 * The image is copied into memory with a zero byte behind it: the driver gets no length,
 * and PTX text must end with zero.
 *
 * The broker unloads modules that are no longer used.
 */
#include "worker/module.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <uthash.h>

#include "base/text.h"
#include "protocol/function_record.h"
#include "worker/worker.h"

#include <gpumem/function.h>

#define LOG_SIZE 0x10000 /* of each of the compiler's two logs */

enum module_state {
	MODULE_NEW,
	MODULE_LOADING, /* by one thread, without the lock */
	MODULE_LOADED,
	MODULE_FAILED,
};

struct module {
	uint32_t id;
	uint32_t device;
	enum module_state state;
	int fd;	   /* the image; closed after loading */
	char *log; /* the compiler's log; NULL: empty */
	CUmodule handle;
	CUfunction *functions;
	unsigned int n_functions;
	bool enumerated; /* functions holds all functions of the module */
	UT_hash_handle hh;
};

/* ---- the table ---- */

static struct module *table_find(struct worker *worker,
				 const struct wire_request *request)
{
	struct module *module;

	HASH_FIND(hh, worker->modules.first, &request->module, sizeof(request->module),
		  module);
	return module && module->device == request->device ? module : NULL;
}

void module_announce(struct worker *worker, struct job *job)
{
	struct module *module = calloc(1, sizeof(*module)), *other;

	if (!module)
		worker_die("has no memory left");
	module->id = job->request.module;
	module->device = job->request.device;
	module->state = MODULE_NEW;
	pthread_mutex_lock(&worker->modules.lock);
	HASH_FIND(hh, worker->modules.first, &module->id, sizeof(module->id), other);
	if (other)
		worker_die("was sent a module twice");
	module->fd = take_fd(&job->fd);
	HASH_ADD(hh, worker->modules.first, id, sizeof(module->id), module);
	pthread_mutex_unlock(&worker->modules.lock);
}

/* ---- loading ---- */

/* Reads a whole image and adds a zero byte. Returns: 0; -errno. */
static int image_read(int fd, char **ret_image)
{
	_cleanup_free_ char *image = NULL;
	struct stat st;
	size_t n = 0;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size <= 0 || st.st_size > WIRE_IMAGE_MAX)
		return -ENOEXEC;
	image = malloc((size_t)st.st_size + 1);
	if (!image)
		return -ENOMEM;
	while (n < (size_t)st.st_size) {
		ssize_t got = pread(fd, image + n, (size_t)st.st_size - n, (off_t)n);

		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		n += (size_t)got;
	}
	image[n] = '\0';
	*ret_image = take_ptr(image);
	return 0;
}

/* Joins both logs of the compiler. */
static char *log_join(const char *info, const char *error)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	text_add(&text, info, strnlen(info, LOG_SIZE));
	if (text.length && text.data[text.length - 1] != '\n')
		text_add(&text, "\n", 1);
	text_add(&text, error, strnlen(error, LOG_SIZE));
	if (!text.length || text_failed(&text))
		return NULL;
	if (text.data[text.length - 1] != '\n')
		text_add(&text, "\n", 1);
	return text_failed(&text) ? NULL : take_ptr(text.data);
}

static int image_load(struct worker *worker, const char *image, CUmodule *ret_handle,
		      char **ret_log, struct cuda_failure *failure)
{
	_cleanup_free_ char *info = calloc(1, LOG_SIZE), *error = calloc(1, LOG_SIZE);
	CUjit_option options[] = {
		CU_JIT_INFO_LOG_BUFFER,	 CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
		CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
		CU_JIT_LOG_VERBOSE,
	};
	void *values[] = {
		info,
		(void *)(uintptr_t)LOG_SIZE,
		error,
		(void *)(uintptr_t)LOG_SIZE,
		(void *)(uintptr_t)1,
	};
	int r;

	if (!info || !error)
		return -ENOMEM;
	r = CUDA(worker->driver, failure, cuModuleLoadDataEx, ret_handle, image,
		 ARRAY_SIZE(options), options, values);
	/*
	 * UNKNOWN stands for a cubin of an unknown architecture; a lost context has other
	 * errors.
	 */
	if (r < 0 && failure->result == CUDA_ERROR_UNKNOWN)
		r = -ENOEXEC;
	*ret_log = log_join(info, error);
	return r;
}

/* Finds all functions, if the driver supports this. */
static int module_enumerate(struct worker *worker, struct module *module,
			    struct cuda_failure *failure)
{
	struct cuda_failure own = CUDA_FAILURE_NONE;
	unsigned int n = 0;
	int r = -EOPNOTSUPP;

	module->enumerated = false;
	if (cuda_driver_has(worker->driver, CUDA_ROW(cuModuleEnumerateFunctions)) &&
	    cuda_driver_has(worker->driver, CUDA_ROW(cuFuncGetName)))
		r = CUDA(worker->driver, &own, cuModuleGetFunctionCount, &n,
			 module->handle);
	if (r == -EOPNOTSUPP)
		return 0;
	if (r == 0 && n > WIRE_FUNCTIONS_MAX)
		return -E2BIG;
	if (r == 0) {
		module->functions = calloc(MAX(n, 1u), sizeof(*module->functions));
		if (!module->functions)
			return -ENOMEM;
	}
	if (r == 0 && n)
		r = CUDA(worker->driver, &own, cuModuleEnumerateFunctions,
			 module->functions, n, module->handle);
	if (r < 0) {
		*failure = own;
		return r;
	}
	module->n_functions = n;
	module->enumerated = true;
	return 0;
}

static void module_forget(struct worker *worker, struct module *module,
			  struct cuda_failure *failure, int *ret_r)
{
	if (module->handle)
		*ret_r = CUDA(worker->driver, failure, cuModuleUnload, module->handle);
	module->handle = NULL;
	free(take_ptr(module->functions));
	module->n_functions = 0;
}

/* Loads a module, in the thread that set MODULE_LOADING. */
static int module_make(struct worker *worker, struct module *module,
		       struct cuda_failure *failure)
{
	_cleanup_free_ char *image = NULL;
	int ignored, r;

	free(take_ptr(module->log));
	r = image_read(module->fd, &image);
	if (r == 0)
		r = image_load(worker, image, &module->handle, &module->log, failure);
	if (r < 0) {
		module->handle = NULL;
		return r;
	}
	r = module_enumerate(worker, module, failure);
	if (r < 0)
		module_forget(worker, module, NULL, &ignored);
	else
		closep(&module->fd);
	return r;
}

/*
 * The module of a request, not being loaded at the moment; NULL: there is none. Looks up
 * the module again after each wait, because it may have been unloaded. Under the lock.
 */
static struct module *table_find_idle(struct worker *worker,
				      const struct wire_request *request)
{
	struct module *module;

	while ((module = table_find(worker, request)) && module->state == MODULE_LOADING)
		pthread_cond_wait(&worker->modules.change, &worker->modules.lock);
	return module;
}

/* Finds and loads the module of a request. On success the lock is held. */
static int module_get(struct worker *worker, const struct wire_request *request,
		      struct module **ret_module, struct cuda_failure *failure)
{
	struct module *module;
	int r = 0;

	pthread_mutex_lock(&worker->modules.lock);
	module = table_find_idle(worker, request);
	if (!module) {
		r = -EINVAL;
	} else if (module->state != MODULE_LOADED) {
		module->state = MODULE_LOADING;
		pthread_mutex_unlock(&worker->modules.lock);
		r = module_make(worker, module, failure);
		pthread_mutex_lock(&worker->modules.lock);
		module->state = r < 0 ? MODULE_FAILED : MODULE_LOADED;
		pthread_cond_broadcast(&worker->modules.change);
	}
	if (r < 0)
		pthread_mutex_unlock(&worker->modules.lock);
	else
		*ret_module = module;
	return r;
}

int module_load(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	struct module *module;
	int r;

	r = module_get(worker, &job->request, &module, failure);
	if (r < 0)
		return r;
	job->value[0] = module->enumerated ? module->n_functions : 0;
	job->value[1] = module->enumerated;
	pthread_mutex_unlock(&worker->modules.lock);
	return 0;
}

int module_unload(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	struct module *module;
	int r = 0;

	pthread_mutex_lock(&worker->modules.lock);
	module = table_find_idle(worker, &job->request);
	if (module)
		HASH_DELETE(hh, worker->modules.first, module);
	pthread_mutex_unlock(&worker->modules.lock);
	if (!module)
		return -EINVAL;
	module_forget(worker, module, failure, &r);
	closep(&module->fd);
	free(module->log);
	free(module);
	return r;
}

/* ---- descriptions ---- */

int module_log(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	uint8_t *place = worker->staging + job->request.offset;
	struct module *module;

	(void)failure;
	pthread_mutex_lock(&worker->modules.lock);
	module = table_find_idle(worker, &job->request);
	if (module && module->log) {
		job->value[0] = MIN(strlen(module->log), job->request.length);
		memcpy(place, module->log, job->value[0]);
	}
	pthread_mutex_unlock(&worker->modules.lock);
	return module ? 0 : -EINVAL;
}

/*
 * Asks for parameters until the driver returns CUDA_ERROR_INVALID_VALUE, behind the last
 * parameter.
 */
static int function_params(struct worker *worker, CUfunction function,
			   struct record_param *params, struct record *record,
			   struct cuda_failure *failure)
{
	for (;;) {
		struct cuda_failure own = CUDA_FAILURE_NONE;
		size_t offset, size;
		int r;

		r = CUDA(worker->driver, &own, cuFuncGetParamInfo, function,
			 record->n_params, &offset, &size);
		record->has_params = r != -EOPNOTSUPP;
		if (own.result == CUDA_ERROR_INVALID_VALUE || r == -EOPNOTSUPP)
			return 0;
		if (r < 0) {
			*failure = own;
			return r;
		}
		if (record->n_params == RECORD_PARAMS_MAX)
			return -E2BIG;
		params[record->n_params++] =
			(struct record_param){ (uint32_t)offset, (uint32_t)size };
	}
}

/* Writes a function's record; name NULL: the driver's name. Returns: its size; -errno. */
static long function_tell(struct worker *worker, CUfunction function, const char *name,
			  void *place, size_t size, struct cuda_failure *failure)
{
	_cleanup_free_ struct record_param *params = NULL;
	struct record record = { .name = name };
	int r = 0;

	params = calloc(RECORD_PARAMS_MAX, sizeof(*params));
	if (!params)
		return -ENOMEM;
	record.params = params;
	if (!name)
		r = CUDA(worker->driver, failure, cuFuncGetName, &record.name, function);
	if (r == 0)
		r = function_params(worker, function, params, &record, failure);
	return r < 0 ? r : record_write(&record, place, size);
}

int module_functions(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	uint8_t *place = worker->staging + job->request.offset;
	uint32_t first = job->request.function;
	struct module *module;
	bool beyond;
	long n = 0;
	int r;

	r = module_get(worker, &job->request, &module, failure);
	if (r < 0)
		return r;
	beyond = first >= module->n_functions;
	for (uint32_t i = first; i < module->n_functions; i++) {
		n = function_tell(worker, module->functions[i], NULL,
				  place + job->value[1],
				  job->request.length - job->value[1], failure);
		if (n < 0)
			break;
		job->value[0]++;
		job->value[1] += (uint64_t)n;
	}
	pthread_mutex_unlock(&worker->modules.lock);
	if (beyond)
		return -EINVAL;
	/*
	 * The next request asks for records that did not fit; a single record must fit.
	 */
	return n == -ENOSPC && job->value[0] ? 0 : n < 0 ? (int)n : 0;
}

/* The number of a function; adds a new function to the table. Under the lock. */
static int module_number(struct module *module, CUfunction function, uint32_t *ret_number)
{
	CUfunction *functions;
	unsigned int i = 0;

	while (i < module->n_functions && module->functions[i] != function)
		i++;
	*ret_number = i;
	if (i < module->n_functions)
		return 0;
	if (i == WIRE_FUNCTIONS_MAX)
		return -E2BIG;
	functions = reallocarray(module->functions, i + 1, sizeof(*functions));
	if (!functions)
		return -ENOMEM;
	module->functions = functions;
	functions[module->n_functions++] = function;
	return 0;
}

int module_find(struct worker *worker, struct job *job, struct cuda_failure *failure)
{
	char *place = (char *)worker->staging + job->request.offset;
	_cleanup_free_ char *name = strndup(place, job->request.length);
	struct module *module;
	CUfunction function;
	uint32_t number = 0;
	long n = 0;
	int r;

	if (!name)
		return -ENOMEM;
	r = module_get(worker, &job->request, &module, failure);
	if (r < 0)
		return r;
	r = CUDA(worker->driver, failure, cuModuleGetFunction, &function, module->handle,
		 name);
	if (r == 0)
		r = module_number(module, function, &number);
	if (r == 0)
		n = function_tell(worker, function, name, place, job->request.length,
				  failure);
	pthread_mutex_unlock(&worker->modules.lock);
	if (r < 0 || n < 0)
		return r < 0 ? r : (int)n;
	job->value[0] = number;
	job->value[1] = (uint64_t)n;
	return 0;
}

int module_function(struct worker *worker, const struct wire_request *request,
		    CUfunction *ret_function, struct cuda_failure *failure)
{
	struct module *module;
	int r;

	r = module_get(worker, request, &module, failure);
	if (r < 0)
		return r;
	if (request->function < module->n_functions)
		*ret_function = module->functions[request->function];
	else
		r = -EINVAL;
	pthread_mutex_unlock(&worker->modules.lock);
	return r;
}

/* ---- attributes ---- */

#define BIT(row) (1ull << (row))

/* The driver's occupancy figures for its suggested block size, without dynamic memory. */
static uint64_t occupancy(struct worker *worker, CUfunction function, unsigned int device,
			  int64_t *values)
{
	int blocks, threads, resident, multiprocessors;
	uint64_t known = 0;

	if (CUDA(worker->driver, NULL, cuOccupancyMaxPotentialBlockSize, &blocks,
		 &threads, function, NULL, 0, 0) == 0) {
		values[FUNCTION_ROW_suggested_grid_size] = blocks;
		values[FUNCTION_ROW_suggested_block_size] = threads;
		known |= BIT(FUNCTION_ROW_suggested_grid_size) |
			 BIT(FUNCTION_ROW_suggested_block_size);
	}
	if (known &&
	    CUDA(worker->driver, NULL, cuOccupancyMaxActiveBlocksPerMultiprocessor,
		 &resident, function, threads, 0) == 0) {
		values[FUNCTION_ROW_max_active_blocks_per_multiprocessor] = resident;
		known |= BIT(FUNCTION_ROW_max_active_blocks_per_multiprocessor);
	}
	if (CUDA(worker->driver, NULL, cuDeviceGetAttribute, &multiprocessors,
		 CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
		 worker->devices[device].handle) == 0) {
		values[FUNCTION_ROW_multiprocessors] = multiprocessors;
		known |= BIT(FUNCTION_ROW_multiprocessors);
	}
	return known;
}

/*
 * Some attributes exist only for a loaded function. With CUDA_MODULE_LOADING=LAZY a
 * lookup by name loads the function.
 */
static int function_attribute(struct worker *worker, CUfunction function, int attribute,
			      int *ret_value, struct cuda_failure *failure)
{
	CUfunction loaded;
	const char *name;
	CUmodule module;
	int r;

	r = CUDA(worker->driver, failure, cuFuncGetAttribute, ret_value,
		 (CUfunction_attribute)attribute, function);
	if (failure->result != CUDA_ERROR_FUNCTION_NOT_LOADED)
		return r;
	*failure = (struct cuda_failure)CUDA_FAILURE_NONE;
	r = CUDA(worker->driver, failure, cuFuncGetModule, &module, function);
	if (r == 0)
		r = CUDA(worker->driver, failure, cuFuncGetName, &name, function);
	if (r == 0)
		r = CUDA(worker->driver, failure, cuModuleGetFunction, &loaded, module,
			 name);
	if (r == 0)
		r = CUDA(worker->driver, failure, cuFuncGetAttribute, ret_value,
			 (CUfunction_attribute)attribute, loaded);
	return r;
}

int module_attributes(struct worker *worker, struct job *job,
		      struct cuda_failure *failure)
{
	static const int attributes[] = {
#define ATTRIBUTE(name, attribute) [FUNCTION_ROW_##name] = (attribute),
		FUNCTION_LIST(ATTRIBUTE)
#undef ATTRIBUTE
	};
	int64_t values[FUNCTION_N_ROWS] = { 0 };
	uint64_t known = 0;
	CUfunction function;
	int r;

	r = module_function(worker, &job->request, &function, failure);
	for (unsigned int i = 0; r == 0 && i < FUNCTION_N_ROWS; i++) {
		struct cuda_failure own = CUDA_FAILURE_NONE;
		int value;

		if (attributes[i] == FUNCTION_OCCUPANCY)
			continue;
		if (function_attribute(worker, function, attributes[i], &value, &own) ==
		    0) {
			values[i] = value;
			known |= BIT(i);
		} else if (cuda_result_is_sticky(own.result)) {
			*failure = own;
			r = -cuda_result_errno(own.result);
		}
	}
	if (r < 0)
		return r;
	known |= occupancy(worker, function, job->request.device, values);
	memcpy(worker->staging + job->request.offset, values, sizeof(values));
	job->value[0] = known;
	return 0;
}
