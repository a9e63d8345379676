/* SPDX-License-Identifier: MIT */
/*
 * The meaning of a CUresult: name, errno, and whether the context is lost.
 *
 * The table needs no driver, so names are known before the driver is loaded and after its
 * process has died. Layers above use an errno, and struct cuda_failure for sentences, but
 * no CUresult.
 */
#pragma once

#include "base/def.h"

/*
 * The name of a result as in cuda.h ("CUDA_ERROR_OUT_OF_MEMORY").
 *
 * Returns: a constant string; "CUDA_ERROR_UNKNOWN" for an unlisted number.
 */
const char *cuda_result_name(int result);

/*
 * The errno of a result.
 *
 * Returns: 0 for CUDA_SUCCESS, else a positive errno; EIO for an unlisted number. EAGAIN
 * stands only for CUDA_ERROR_NOT_READY, ENOMEM for a full device.
 */
int cuda_result_errno(int result);

/*
 * Finds a result by name, for options and tests.
 *
 * Returns: the number; -1 for an unknown name.
 */
int cuda_result_find(const char *name);

/*
 * Whether this process has lost its context for good. Every later call will return the
 * same result; only a new process gets a new context.
 */
bool cuda_result_is_sticky(int result);

/*
 * Whether the device is gone, or its hardware has a fault: what an administrator should
 * know.
 */
bool cuda_result_is_of_device(int result);
