/* SPDX-License-Identifier: MIT */
/*
 * Workarounds for Criterion in every test program.
 *
 * Criterion shares memory with the processes of its tests at a random address, drawn with
 * rand_r(): 0x200000000000 + (rand_r() & 0x3fffff) * 16 MiB. This range overlaps the
 * devices' ranges (gpumem/wire.h), and the thread sanitizer allows no mappings there. The
 * rand_r() in this file replaces the C library's and draws addresses from 0x550000000000
 * to 0x554000000000, which are free in all programs.
 *
 * A test ends by _exit(), which the thread sanitizer's exit status of a race does not
 * survive. So the first report of a race ends the test. Some tests fork() a process that
 * starts threads, which the thread sanitizer allows on request.
 *
 * Criterion also leaks a little memory when a test fails. A leak report would hide the
 * failure of the test.
 */
#include <stdlib.h>

#define ARENA_FIRST 0x350000
#define ARENA_MASK  0x3fff

__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_options(void);

__attribute__((visibility("default"))) const char *__tsan_default_options(void);

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

const char *__tsan_default_options(void)
{
	return "halt_on_error=1:die_after_fork=0";
}
