/* SPDX-License-Identifier: MIT */
/*
 * The CUDA driver as gpumem sees it: a table of functions loaded from one library, and
 * one way to call them.
 *
 * Functions are named as the library exports them, version suffix and all:
 *
 *	r = CUDA(driver, &failure, cuMemAlloc_v2, &address, size);
 *	if (r < 0)
 *		return r;
 *
 * The members of the table are called fn_SYMBOL so that cuda.h's renaming macros can't
 * touch them, and CUDA() and CUDA_ROW() take the symbol unexpanded. Don't wrap these
 * two in a macro that passes a symbol on.
 */
#pragma once

#include "base/def.h"
#include "base/text.h"
#include "cuda/result.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <gpumem/driver.h>

#define CUDA_ROW(symbol) CUDA_ROW_##symbol

/* One number a row of the list, in its order: what struct cuda_failure holds. */
enum cuda_call {
#define CUDA_ROW_NUMBER(symbol, type, need) CUDA_ROW_##symbol,
	CUDA_DRIVER_LIST(CUDA_ROW_NUMBER)
#undef CUDA_ROW_NUMBER
		CUDA_N_CALLS,
};

/* Which call failed and with which result: plain numbers, fit for a wire. */
struct cuda_failure {
	int call;   /* enum cuda_call, -1 when no call failed */
	int result; /* CUresult */
};

#define CUDA_FAILURE_NONE \
	{                 \
		-1, 0     \
	}

struct cuda_driver {
#define CUDA_ROW_MEMBER(symbol, type, need) type fn_##symbol;
	CUDA_DRIVER_LIST(CUDA_ROW_MEMBER)
#undef CUDA_ROW_MEMBER
	int version;   /* as cuDriverGetVersion tells it: 13000 is CUDA 13.0 */
	char *path;    /* where the library was found */
	void *library; /* of dlopen */
};

/*
 * Loads the driver library at path (with a slash: that file; without: as dlopen
 * searches), resolves every row of the list and calls cuInit. No context is made.
 *
 * Returns: 0, or with one sentence in why:
 *   -ENOENT      the library can't be loaded
 *   -ENOSYS      it lacks a required symbol, which the sentence names
 *   -EOPNOTSUPP  it is older than CUDA 12.2
 *   -ENODEV      it finds no device
 *   -ENOMEM      no memory left for the table
 *   or cuda_result_errno() of what cuInit answered
 * and ret is untouched. The caller owns *ret and frees it with cuda_driver_free().
 */
int cuda_driver_open(const char *path, struct cuda_driver **ret, struct text *why);

/*
 * Loads the library and nothing more, so that a later cuda_driver_open() of the same path
 * needs no right to read it: for a process that drops its privileges in between. Failure
 * shows in cuda_driver_open().
 */
void cuda_driver_preload(const char *path);

/*
 * Forgets the table. The library stays loaded: the driver's own threads and exit
 * handlers can't be taken out of a process.
 *
 * Returns: NULL.
 */
struct cuda_driver *cuda_driver_free(struct cuda_driver *driver);

/* Whether the library has this row, CUDA_ROW(symbol): for optional ones. */
bool cuda_driver_has(const struct cuda_driver *driver, int call);

/* The exported symbol of a row ("cuMemAlloc_v2"), "" for -1 and for no row. */
const char *cuda_call_name(int call);

/* Turns a result into what CUDA() evaluates to; failure may be NULL. */
int cuda_call_finish(struct cuda_failure *failure, int call, int result);

/*
 * Calls a row of the list: CUDA(driver, failure, SYMBOL, arguments...).
 *
 * Evaluates to 0, or to -cuda_result_errno() with *failure filled where failure is not
 * NULL; a success leaves *failure alone. An optional row that is missing gives
 * -EOPNOTSUPP (CUDA_ERROR_NOT_SUPPORTED).
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

/* ` (CALL: RESULT)`, appended where a driver call failed. */
void text_add_call(struct text *text, int call, int result);
