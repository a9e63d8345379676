/* SPDX-License-Identifier: MIT */
/* Unpacks nvcc's compressed fat binaries: unzstd.c, or unzstd-none.c without libzstd. */
#pragma once

#include "base/def.h"

/* Returns: whether the output was filled exactly. */
bool zstd_unpack(const unsigned char *at, size_t size, char *to, size_t to_size);
