/* SPDX-License-Identifier: MIT */
/* An empty target: meson builds it to find out whether clang has libFuzzer. */
#include "fuzz.h"

int fuzz(const uint8_t *bytes, size_t size)
{
	(void)bytes;
	(void)size;
	return 0;
}
