/* SPDX-License-Identifier: MIT */
/* Images of modules, and the PTX in them. */
#pragma once

#include "softgpu/call.h"

/*
 * Finds the PTX of an image: text, or in a fat binary.
 *
 * Returns: CUDA_SUCCESS with the text, which is the image's, or unpacked into memory for
 * the caller to free; or with a sentence in log:
 *   CUDA_ERROR_NO_BINARY_FOR_GPU  a cubin, or a fat binary without PTX
 *   CUDA_ERROR_UNKNOWN            a cubin that names no architecture
 *   CUDA_ERROR_INVALID_IMAGE      none of these
 *   CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult image_ptx(const void *image, const char **ret, size_t *ret_length,
		   char **ret_unpacked, struct text *log);
