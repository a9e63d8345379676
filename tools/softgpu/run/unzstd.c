/* SPDX-License-Identifier: MIT */
#include "unzstd.h"

#include <zstd.h>

bool zstd_unpack(const unsigned char *at, size_t size, char *to, size_t to_size)
{
	return ZSTD_decompress(to, to_size, at, size) == to_size;
}
