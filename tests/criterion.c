/* SPDX-License-Identifier: MIT */
/*
 * What every test program needs around Criterion.
 *
 * Criterion shares memory with the processes of its tests at one address, which it draws
 * with rand_r(): 0x200000000000 + (rand_r() & 0x3fffff) * 16 MiB. That is where the
 * devices' ranges stand (gpumem/wire.h), and where the thread sanitizer lets nobody map
 * anything. This rand_r() comes before the C library's and draws from a part that suits
 * everybody: 0x550000000000 up to 0x554000000000.
 *
 * And it leaks a little when a test fails; a report of that would take the place of the
 * test's own.
 */
#include <stdlib.h>

#define ARENA_FIRST 0x350000
#define ARENA_MASK  0x3fff

__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_options(void);

__attribute__((visibility("default"))) int rand_r(unsigned int *seed)
{
	*seed = *seed * 1103515245u + 12345u;
	return ARENA_FIRST + (int)(*seed >> 16 & ARENA_MASK);
}

const char *__lsan_default_suppressions(void)
{
	return "leak:libcriterion\n";
}

const char *__lsan_default_options(void)
{
	return "print_suppressions=0";
}
