/* SPDX-License-Identifier: MIT */
/*
 * What an image is, told by its content alone: a cubin, a fatbin or PTX text.
 *
 * The driver is given an address and no length, and believes what it finds there. So
 * whatever an image says of where its parts are is held against its real size first.
 */
#pragma once

#include "base/refusal.h"

#define IMAGE_MAX (256ull << 20) /* bytes */

/*
 * Returns: what it is ("cubin", "fatbin", "PTX"); NULL with a refusal, ENOEXEC, whose
 * sentence says what is wrong with it and goes behind the name of what it is for.
 */
const char *image_check(const void *bytes, size_t size, struct refusal *refusal);
