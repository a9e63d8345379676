/* SPDX-License-Identifier: MIT */
/*
 * What the leak checker is told in every test program: Criterion leaks a little when a
 * test fails, and the report of that would take the place of the test's own.
 */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_options(void);

const char *__lsan_default_suppressions(void)
{
	return "leak:libcriterion\n";
}

const char *__lsan_default_options(void)
{
	return "print_suppressions=0";
}

#ifdef __SANITIZE_THREAD__
/*
 * Criterion wants its arena at a fixed address somewhere between 0x200000000000 and
 * 0x600000000000, where it asks mincore whether there is anything; but the thread
 * sanitizer lets no program map anything there. So each such place is free, and stands
 * for one where programs may.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#define ARENA_FIRST 0x200000000000ull
#define ARENA_END   0x600000000000ull
#define ARENA_PLACE 0x7ef000000000ull
#define ARENA_MASK  0xfff000000ull

static bool is_arena(void *address)
{
	return (uintptr_t)address >= ARENA_FIRST && (uintptr_t)address < ARENA_END;
}

__attribute__((visibility("default"))) int mincore(void *address, size_t length,
						   unsigned char *present)
{
	static int (*next)(void *, size_t, unsigned char *);

	if (is_arena(address)) {
		errno = ENOMEM;
		return -1;
	}
	if (!next)
		next = (__typeof__(next))dlsym(RTLD_NEXT, "mincore");
	return next(address, length, present);
}

__attribute__((visibility("default"))) void *
mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	static void *(*next)(void *, size_t, int, int, int, off_t);

	if (!next)
		next = (__typeof__(next))dlsym(RTLD_NEXT, "mmap64");
	if (is_arena(address) && flags & MAP_FIXED && fd >= 0)
		address = (void *)(ARENA_PLACE + ((uintptr_t)address & ARENA_MASK));
	return next(address, length, protection, flags, fd, offset);
}
#endif
