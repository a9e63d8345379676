/* SPDX-License-Identifier: MIT */
/* A target that looks at nothing: whether clang has libFuzzer. */
#include "fuzz.h"

int fuzz(const uint8_t *bytes, size_t size)
{
	(void)bytes;
	(void)size;
	return 0;
}
