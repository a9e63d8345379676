/* SPDX-License-Identifier: MIT */
/*
 * Detects the format of an image by its content: a cubin, a fatbin or PTX text.
 *
 * The driver gets an address without a length and trusts the bytes. So all offsets and
 * sizes inside an image are checked against its real size first.
 */
#pragma once

#include <stddef.h>

struct refusal;

#define IMAGE_MAX (256ull << 20) /* bytes */

/*
 * Returns: the format ("cubin", "fatbin", "PTX"); NULL with a refusal, ENOEXEC, with a
 * sentence that follows the name of the file.
 */
const char *image_check(const void *bytes, size_t size, struct refusal *refusal);
