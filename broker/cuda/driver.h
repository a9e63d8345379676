/* SPDX-License-Identifier: MIT */
/*
 * The CUDA driver: a table of functions loaded from a library, and a macro to call them.
 *
 * Functions have their exported names, with version suffix:
 *
 *	r = CUDA(driver, &failure, cuMemAlloc_v2, &address, size);
 *	if (r < 0)
 *		return r;
 */
#pragma once

#include "base/def.h"
#include "cuda/failure.h"
#include "cuda/result.h"

#include <gpumem/cuda.h>
#include <gpumem/driver.h>

struct text;

#define CUDA_ROW(symbol) CUDA_ROW_##symbol

/* A number for each row of the list, in its order; used in struct cuda_failure. */
enum cuda_call {
#define CUDA_ROW_NUMBER(symbol, ...) CUDA_ROW_##symbol,
	CUDA_DRIVER_LIST(CUDA_ROW_NUMBER)
#undef CUDA_ROW_NUMBER
		CUDA_N_CALLS,
};

struct cuda_driver {
#define CUDA_ROW_MEMBER(symbol, version, need, parameters) \
	CUresult(*fn_##symbol) parameters;
	CUDA_DRIVER_LIST(CUDA_ROW_MEMBER)
#undef CUDA_ROW_MEMBER
	int version;   /* as from cuDriverGetVersion: 13000 is CUDA 13.0 */
	char *path;    /* path of the library */
	void *library; /* from dlopen */
};

/*
 * Loads the driver library at path (with a slash: this file; without: as dlopen
 * searches), resolves every row of the list and calls cuInit. No context is made.
 *
 * Returns: 0, or with a sentence in why:
 *   -ENOENT      the library can't be loaded
 *   -EOPNOTSUPP  a required symbol, named in the sentence, is missing; or the driver is
 *                older than CUDA 12.2
 *   -ENODEV      the driver finds no device
 *   -ENOMEM      no memory for the table
 *   or cuda_result_errno() of the result of cuInit
 * and ret is unchanged. The caller owns *ret and frees it with cuda_driver_free().
 */
int cuda_driver_open(const char *path, struct cuda_driver **ret, struct text *why);

/*
 * Loads the library and nothing more, so that a later cuda_driver_open() of the same path
 * needs no read permission. For a process that drops its privileges in between. A failure
 * shows in cuda_driver_open().
 */
void cuda_driver_preload(const char *path);

/*
 * Frees the table. The library stays loaded: the driver's threads and exit handlers can't
 * be removed from a process.
 *
 * Returns: NULL.
 */
struct cuda_driver *cuda_driver_free(struct cuda_driver *driver);

/* Whether the library has the row CUDA_ROW(symbol); for optional rows. */
bool cuda_driver_has(const struct cuda_driver *driver, int call);

/* Converts a result to the value of CUDA(); failure may be NULL. */
int cuda_call_finish(struct cuda_failure *failure, int call, int result);

/*
 * Calls a row of the list: CUDA(driver, failure, SYMBOL, arguments...).
 *
 * The value is 0 or -cuda_result_errno(); an error also fills *failure, unless NULL. A
 * success leaves *failure unchanged. A missing optional row gives -EOPNOTSUPP
 * (CUDA_ERROR_NOT_SUPPORTED).
 */
#define CUDA(driver, failure, symbol, ...)                                          \
	cuda_call_finish((failure), CUDA_ROW_##symbol,                              \
			 (driver)->fn_##symbol ? (driver)->fn_##symbol(__VA_ARGS__) \
					       : CUDA_ERROR_NOT_SUPPORTED)

static inline void cuda_driver_freep(struct cuda_driver **driver)
{
	cuda_driver_free(*driver);
}

#define _cleanup_cuda_driver_ _cleanup_(cuda_driver_freep)
