/* SPDX-License-Identifier: MIT */
/*
 * Launches: the request is checked as on hardware, the parameters are copied, and an op
 * runs the kernel in the order of the stream.
 *
 * A kernel that faults poisons the process, when all other running kernels have been
 * ended: whoever hears of the fault sees no more of their stores.
 */
#include "module.h"
#include "print.h"
#include "softgpu/context.h"
#include "softgpu/logs.h"
#include "softgpu/managed/managed.h"
#include "softgpu/memory/space.h"
#include "stream.h"

#include <stdio.h>
#include <string.h>

#define MAX_THREADS	 1024U
#define SHARED_PER_SM	 233472U
#define SHARED_RESERVED	 1024U
#define REGISTERS_PER_SM 65536U
#define THREADS_PER_SM	 2048U
#define BLOCKS_PER_SM	 32U
#define PROCESSORS	 4U
#define CLUSTER_PORTABLE 8U
#define CLUSTER_MAX	 16U

static const struct ptx_dim grid_max = { 2147483647, 65535, 65535 };
static const struct ptx_dim block_max = { 1024, 1024, 64 };

struct launch_op {
	struct op op;
	struct ptx_launch launch;
	struct ptx_machine machine;
	struct context *context;
	const struct stream *stream;
	size_t print_limit;
	unsigned char params[];
};

/* Under the library's lock. */
static uint64_t last_launch;
static unsigned int n_running; /* kernels */
static CUresult first_fault;   /* of all kernels; read without */
static pthread_cond_t none_runs = PTHREAD_COND_INITIALIZER;

/* Memory that the device's kernels may use, as a single window. */
static bool range_reach(const struct context *context, const struct range *range,
			struct ptx_window *ret)
{
	const unsigned int access = range_device_access(range, context);

	*ret = (struct ptx_window){
		.start = range->start,
		.end = range_end(range),
		.writable = access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	return access != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

/*
 * A window of managed memory is a page, so that the kernel asks for each anew. Only a
 * request to write gives a window for writing: then the copies of the page go.
 */
static bool managed_reach(const struct stream *stream, uint64_t address, bool write,
			  struct ptx_window *ret)
{
	const uint64_t page = address & ~(RESIDENCY_PAGE - 1);

	if (managed_touch(stream, address, 1, write))
		return false;
	ret->start = MAX(ret->start, page);
	ret->end = MIN(ret->end, page + RESIDENCY_PAGE);
	ret->writable = write;
	return true;
}

static bool machine_reach(void *data, uint64_t address, bool write,
			  struct ptx_window *ret)
{
	const struct launch_op *op = data;
	const struct range *range;
	bool found, managed;

	call_lock();
	range = space_find(address);
	found = range && range_reach(op->context, range, ret);
	managed = found && range->kind == RANGE_MANAGED;
	call_unlock();
	if (managed)
		return managed_reach(op->stream, address, write, ret);
	return found && (ret->writable || !write);
}

static bool machine_stopped(void *data)
{
	(void)data;
	return __atomic_load_n(&first_fault, __ATOMIC_RELAXED) || call_poisoned_now();
}

static void machine_print(void *data, const char *text, size_t length)
{
	const struct launch_op *op = data;

	print_add(text, length, op->print_limit);
}

static void machine_complain(void *data, const char *text, size_t length)
{
	(void)data;
	fwrite(text, 1, length, stderr);
}

static void machine_explain(void *data, const char *text, size_t length)
{
	(void)data;
	logs_add(text, length);
}

static CUresult fault_result(enum ptx_fault fault)
{
	switch (fault) {
	case PTX_FAULT_ADDRESS:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	case PTX_FAULT_MISALIGNED:
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	case PTX_FAULT_ASSERT:
		return CUDA_ERROR_ASSERT;
	case PTX_FAULT_NONE:
	case PTX_FAULT_STOPPED:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_LAUNCH_FAILED;
	}
}

/* Else an ended kernel would look done. Under the library's lock. */
static void wait_for_poison(void)
{
	while (first_fault && !call_poisoned())
		call_wait(&none_runs);
}

/* Returns: false after a fault, when no kernel begins any more. */
static bool kernel_begin(void)
{
	bool begins;

	call_lock();
	wait_for_poison();
	begins = !call_poisoned();
	n_running += begins;
	call_unlock();
	return begins;
}

static void kernel_end(CUresult result)
{
	call_lock();
	if (result && !first_fault)
		__atomic_store_n(&first_fault, result, __ATOMIC_RELAXED);
	if (--n_running == 0 && first_fault) {
		call_poison(first_fault);
		pthread_cond_broadcast(&none_runs);
	}
	wait_for_poison();
	call_unlock();
}

static void launch_run(struct op *op, bool alive)
{
	struct launch_op *launch = container_of(op, struct launch_op, op);

	if (alive && kernel_begin())
		kernel_end(fault_result(ptx_launch_run(&launch->launch)));
	free(launch);
}

static uint32_t round_up(uint32_t value, uint32_t to)
{
	return (value + to - 1) / to * to;
}

/* Blocks of the function that a multiprocessor holds at a time. */
static uint32_t occupancy(const struct function *function, uint32_t threads,
			  uint64_t dynamic)
{
	const struct ptx_kernel *kernel = function->kernel;
	const uint32_t rounded = round_up(MAX(threads, 1U), 32);
	const uint64_t shared = kernel->shared_size + dynamic + SHARED_RESERVED;
	uint32_t n = MIN(BLOCKS_PER_SM, THREADS_PER_SM / rounded);

	if (threads > function_max_threads(function) || dynamic > function->max_dynamic)
		return 0;
	n = MIN(n, REGISTERS_PER_SM / (kernel->n_registers * rounded));
	return MIN(n, (uint32_t)(SHARED_PER_SM / shared));
}

static bool dim_fits(struct ptx_dim dim, struct ptx_dim max)
{
	return dim.x && dim.y && dim.z && dim.x <= max.x && dim.y <= max.y &&
	       dim.z <= max.z;
}

static uint64_t dim_volume(struct ptx_dim dim)
{
	return (uint64_t)dim.x * dim.y * dim.z;
}

static bool dim_same(struct ptx_dim a, struct ptx_dim b)
{
	return a.x == b.x && a.y == b.y && a.z == b.z;
}

static CUresult block_check(const struct function *function,
			    const struct ptx_launch *launch)
{
	const struct ptx_dim required = function->kernel->required;

	if (!dim_fits(launch->grid, grid_max) || !dim_fits(launch->block, block_max) ||
	    dim_volume(launch->block) > MAX_THREADS)
		return CUDA_ERROR_INVALID_VALUE;
	if (required.x && !dim_same(launch->block, required))
		return CUDA_ERROR_INVALID_VALUE;
	if (dim_volume(launch->block) > function_max_threads(function) ||
	    launch->dynamic_shared > function->max_dynamic)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult cluster_check(const struct function *function,
			      const struct ptx_launch *launch)
{
	const struct ptx_dim cluster = launch->cluster;
	const uint64_t max =
		function->non_portable_cluster ? CLUSTER_MAX : CLUSTER_PORTABLE;

	if (!cluster.x)
		return function->needs_cluster ? CUDA_ERROR_INVALID_CLUSTER_SIZE
					       : CUDA_SUCCESS;
	if (!cluster.y || !cluster.z || dim_volume(cluster) > max)
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	if (launch->grid.x % cluster.x || launch->grid.y % cluster.y ||
	    launch->grid.z % cluster.z)
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	return CUDA_SUCCESS;
}

static CUresult cooperative_check(const struct function *function,
				  const struct ptx_launch *launch)
{
	const uint32_t per_processor = occupancy(
		function, (uint32_t)dim_volume(launch->block), launch->dynamic_shared);

	if (launch->cooperative &&
	    dim_volume(launch->grid) > (uint64_t)per_processor * PROCESSORS)
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	return CUDA_SUCCESS;
}

/* extra: pairs of a name and a value, up to the end. */
static CUresult params_from_extra(const struct ptx_kernel *kernel, void **extra,
				  unsigned char *ret)
{
	const void *buffer = NULL;
	size_t size = 0;

	for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
			size = *(const size_t *)extra[1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (size < kernel->params_size || (!buffer && kernel->params_size))
		return CUDA_ERROR_INVALID_VALUE;
	if (kernel->params_size)
		memcpy(ret, buffer, kernel->params_size);
	return CUDA_SUCCESS;
}

static CUresult params_copy(const struct ptx_kernel *kernel, void **params, void **extra,
			    unsigned char *ret)
{
	if (params && extra)
		return CUDA_ERROR_INVALID_VALUE;
	if (extra)
		return params_from_extra(kernel, extra, ret);
	if (!params && kernel->n_params)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < kernel->n_params; i++)
		memcpy(ret + kernel->params[i].offset, params[i], kernel->params[i].size);
	return CUDA_SUCCESS;
}

static uint32_t host_threads(void)
{
	const long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : (uint32_t)MIN(n, 16L);
}

static void op_fill(struct launch_op *op, const struct function *function,
		    const struct ptx_launch *launch, const struct stream *stream)
{
	op->op.run = launch_run;
	op->context = function_context(function);
	op->stream = stream;
	op->print_limit = op->context->limits[CU_LIMIT_PRINTF_FIFO_SIZE];
	op->launch = *launch;
	op->launch.kernel = function->ptx;
	op->launch.machine = &op->machine;
	op->launch.params = op->params;
	op->launch.id = ++last_launch;
	op->machine = (struct ptx_machine){
		.reach = machine_reach,
		.epoch = space_epoch(),
		.stopped = machine_stopped,
		.print = machine_print,
		.complain = machine_complain,
		.explain = machine_explain,
		.data = op,
		.n_processors = PROCESSORS,
		.n_threads = host_threads(),
	};
}

static CUresult launch(CUfunction handle, const struct ptx_launch *asked,
		       CUstream stream_handle, void **params, void **extra)
{
	struct ptx_launch wanted = *asked;
	struct function *function;
	struct launch_op *op;
	struct stream *stream;
	CUresult result = function_load(handle, &function);

	if (!result)
		result = stream_find(stream_handle, &stream);
	if (!result && stream->context != function_context(function))
		result = CUDA_ERROR_INVALID_HANDLE;
	if (!result && !wanted.cluster.x)
		wanted.cluster = function->kernel->cluster;
	if (!result)
		result = block_check(function, &wanted);
	if (!result)
		result = cluster_check(function, &wanted);
	if (!result)
		result = cooperative_check(function, &wanted);
	if (result)
		return result;
	op = calloc(1, sizeof(*op) + function->kernel->params_size);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = params_copy(function->kernel, params, extra, op->params);
	if (result) {
		free(op);
		return result;
	}
	op_fill(op, function, &wanted, stream);
	return stream_queue(stream, &op->op);
}

CALL(cuLaunchKernel, NEED_CONTEXT,
     (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
      unsigned int block_x, unsigned int block_y, unsigned int block_z,
      unsigned int dynamic, CUstream stream, void **params, void **extra),
     (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, dynamic, stream,
      params, extra))
{
	const struct ptx_launch asked = {
		.grid = { grid_x, grid_y, grid_z },
		.block = { block_x, block_y, block_z },
		.dynamic_shared = dynamic,
	};

	return launch(function, &asked, stream, params, extra);
}

CALL(cuLaunchCooperativeKernel, NEED_CONTEXT,
     (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
      unsigned int block_x, unsigned int block_y, unsigned int block_z,
      unsigned int dynamic, CUstream stream, void **params),
     (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, dynamic, stream,
      params))
{
	const struct ptx_launch asked = {
		.grid = { grid_x, grid_y, grid_z },
		.block = { block_x, block_y, block_z },
		.dynamic_shared = dynamic,
		.cooperative = true,
	};

	return launch(function, &asked, stream, params, NULL);
}

/* Attributes that change the run; those that only advise are taken and ignored. */
static CUresult attribute_take(const CUlaunchAttribute *attribute,
			       struct ptx_launch *launch)
{
	switch (attribute->id) {
	case CU_LAUNCH_ATTRIBUTE_IGNORE:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		launch->cooperative = attribute->value.cooperative != 0;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		launch->cluster.x = attribute->value.clusterDim.x;
		launch->cluster.y = attribute->value.clusterDim.y;
		launch->cluster.z = attribute->value.clusterDim.z;
		return launch->cluster.x ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CALL(cuLaunchKernelEx, NEED_CONTEXT,
     (const CUlaunchConfig *config, CUfunction function, void **params, void **extra),
     (config, function, params, extra))
{
	CUresult result = CUDA_SUCCESS;
	struct ptx_launch asked;

	if (!config || (config->numAttrs && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	asked = (struct ptx_launch){
		.grid = { config->gridDimX, config->gridDimY, config->gridDimZ },
		.block = { config->blockDimX, config->blockDimY, config->blockDimZ },
		.dynamic_shared = config->sharedMemBytes,
	};
	for (unsigned int i = 0; i < config->numAttrs && !result; i++)
		result = attribute_take(&config->attrs[i], &asked);
	return result ? result : launch(function, &asked, config->hStream, params, extra);
}

CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, NEED_CONTEXT,
     (int *ret, CUfunction handle, int threads, size_t dynamic),
     (ret, handle, threads, dynamic))
{
	struct function *function;
	CUresult result = function_find(handle, &function);

	if (result)
		return result;
	if (!ret || threads < 1)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (int)occupancy(function, (uint32_t)threads, dynamic);
	return CUDA_SUCCESS;
}

/* The size of block, a multiple of a warp, with which most threads run at a time. */
CALL(cuOccupancyMaxPotentialBlockSize, NEED_CONTEXT,
     (int *ret_grid, int *ret_block, CUfunction handle, CUoccupancyB2DSize of_block,
      size_t dynamic, int limit),
     (ret_grid, ret_block, handle, of_block, dynamic, limit))
{
	uint32_t best = 0, best_blocks = 0, most;
	struct function *function;
	CUresult result = function_find(handle, &function);

	if (result)
		return result;
	if (!ret_grid || !ret_block || limit < 0)
		return CUDA_ERROR_INVALID_VALUE;
	most = function_max_threads(function);
	if (limit)
		most = MIN(most, (uint32_t)limit);
	for (uint32_t threads = round_up(most, 32); threads; threads -= 32) {
		const uint32_t size = MIN(threads, most);
		const size_t shared = of_block ? of_block((int)size) : dynamic;
		const uint32_t blocks = occupancy(function, size, shared);

		if (blocks * size <= best * best_blocks)
			continue;
		best = size;
		best_blocks = blocks;
	}
	*ret_block = (int)best;
	*ret_grid = (int)(best_blocks * PROCESSORS);
	return CUDA_SUCCESS;
}

CALL(cuOccupancyAvailableDynamicSMemPerBlock, NEED_CONTEXT,
     (size_t * ret, CUfunction handle, int blocks, int threads),
     (ret, handle, blocks, threads))
{
	struct function *function;
	uint32_t fixed;
	CUresult result = function_find(handle, &function);

	if (result)
		return result;
	if (!ret || blocks < 1 || threads < 1)
		return CUDA_ERROR_INVALID_VALUE;
	fixed = function->kernel->shared_size + SHARED_RESERVED;
	if ((uint32_t)blocks > occupancy(function, (uint32_t)threads, 0))
		return CUDA_ERROR_INVALID_VALUE;
	*ret = SHARED_PER_SM / (uint32_t)blocks - fixed;
	return CUDA_SUCCESS;
}

static bool limit_is_known(CUlimit limit)
{
	return (size_t)limit < CONTEXT_N_LIMITS;
}

CALL(cuCtxSetLimit, NEED_CONTEXT, (CUlimit limit, size_t value), (limit, value))
{
	if (!limit_is_known(limit))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	context_current()->limits[limit] = value;
	return CUDA_SUCCESS;
}

CALL(cuCtxGetLimit, NEED_CONTEXT, (size_t * ret, CUlimit limit), (ret, limit))
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!limit_is_known(limit))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*ret = context_current()->limits[limit];
	return CUDA_SUCCESS;
}
