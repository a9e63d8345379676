/* SPDX-License-Identifier: MIT */
/* What nvcc packs fat binaries with: unzstd.c, or unzstd-none.c where libzstd is missing.
 */
#pragma once

#include "base/def.h"

/* Returns: whether the output was filled exactly. */
bool zstd_unpack(const unsigned char *at, size_t size, char *to, size_t to_size);
