/* SPDX-License-Identifier: MIT */
/* Loaded modules and their kernels. */
#pragma once

#include "softgpu/call.h"

#include <ptx.h>

struct context;
struct module;

struct function {
	struct module *module;
	struct ptx_function *ptx;
	const struct ptx_kernel *kernel; /* its parameters, registers and limits */
	uint32_t max_dynamic;		 /* shared memory, bytes; may be raised */
	int carveout;			 /* kept and told, and of no effect */
	int cluster_policy;
	bool loaded; /* its code is on the device */
	bool non_portable_cluster;
	bool needs_cluster;
};

/* Returns: CUDA_SUCCESS, or CUDA_ERROR_INVALID_HANDLE. */
CUresult function_find(CUfunction handle, struct function **ret);

/*
 * The same for a function to be loaded, where needed: the load waits for the running work
 * of the context, as on hardware.
 */
CUresult function_load(CUfunction handle, struct function **ret);

/* The most threads of a block of the function. */
uint32_t function_max_threads(const struct function *function);

struct context *function_context(const struct function *function);

/* Frees the modules of a context, in which nothing runs any more. */
void modules_end_context(const struct context *context);
