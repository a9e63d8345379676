/* SPDX-License-Identifier: MIT */
#include "base/huge_pages.h"

#include <stddef.h>
#include <sys/mman.h>

#include "base/def.h"

/* A huge page is mapped in one piece only at an address that is a multiple of its size.
 */
void *huge_pages_map(int fd, uint64_t size)
{
	uint64_t begin, aligned, end;
	void *room, *memory;

	if (size < HUGE_PAGE)
		return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	room = mmap(NULL, size + HUGE_PAGE, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return MAP_FAILED;
	begin = (uint64_t)(uintptr_t)room;
	end = begin + size + HUGE_PAGE;
	aligned = align_up(begin, HUGE_PAGE);
	memory = mmap((uint8_t *)room + (aligned - begin), size, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_FIXED, fd, 0);
	if (memory == MAP_FAILED) {
		(void)munmap(room, size + HUGE_PAGE);
		return MAP_FAILED;
	}
	if (aligned > begin)
		(void)munmap(room, aligned - begin);
	aligned += align_up(size, (uint64_t)4096);
	if (end > aligned)
		(void)munmap((uint8_t *)room + (aligned - begin), end - aligned);
	(void)madvise(memory, size, MADV_HUGEPAGE);
	return memory;
}

/* The kernel makes a huge page where one byte of it is wanted. */
void huge_pages_make(void *memory, uint64_t size)
{
	for (uint64_t at = 0; size - at >= HUGE_PAGE; at += HUGE_PAGE)
		(void)madvise((uint8_t *)memory + at, 1, MADV_POPULATE_WRITE);
}
