/* SPDX-License-Identifier: MIT */
/*
 * What a CUresult means: its name, its errno and whether the context is lost.
 *
 * One table, which needs no driver: names are known before one is loaded and after
 * the process that loaded it has died. A CUresult goes no further up than this layer;
 * above it there are errnos, and a struct cuda_failure for the sentence.
 */
#pragma once

#include "base/def.h"

/*
 * The name of a result as cuda.h spells it ("CUDA_ERROR_OUT_OF_MEMORY").
 *
 * Returns: a constant string; "CUDA_ERROR_UNKNOWN" for a number that is not in the
 * table.
 */
const char *cuda_result_name(int result);

/*
 * The errno that stands for a result.
 *
 * Returns: 0 for CUDA_SUCCESS, else a positive errno; EIO for a number that is not in
 * the table. EAGAIN stands for CUDA_ERROR_NOT_READY only, ENOMEM for a device that is
 * full.
 */
int cuda_result_errno(int result);

/*
 * The result of that name, for options and tests.
 *
 * Returns: the number, or -1 when no result has that name.
 */
int cuda_result_find(const char *name);

/*
 * Whether a result says that this process has lost its context for good: every later
 * call will answer the same, and only a new process gets a new context.
 */
bool cuda_result_is_sticky(int result);
