/* SPDX-License-Identifier: MIT */
#include "base/huge_pages.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define HUGE_PAGE ((uint64_t)2 << 20)

static uint64_t pages_of(int fd)
{
	struct stat stat;

	cr_assert(eq(int, fstat(fd, &stat), 0));
	return (uint64_t)stat.st_blocks * 512;
}

/* A file of a tmpfs that lets programs ask for huge pages, whatever the machine does. */
static int advised_file(uint64_t size)
{
	char folder[] = "/tmp/huge_pages.XXXXXX";
	int fd;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		cr_skip_test("only root may mount: no tmpfs that allows huge pages");
	cr_assert(ne(ptr, mkdtemp(folder), NULL));
	if (mount("none", folder, "tmpfs", 0, "huge=advise")) {
		rmdir(folder);
		cr_skip_test("this kernel has no huge pages in tmpfs");
	}
	fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	cr_assert(eq(int, umount2(folder, MNT_DETACH), 0));
	rmdir(folder);
	cr_assert(ge(int, fd, 0));
	cr_assert(eq(int, ftruncate(fd, (off_t)size), 0));
	return fd;
}

Test(huge_pages, one_byte_of_each_makes_them_all)
{
	const uint64_t size = 3 * HUGE_PAGE + 5 * 4096;
	int fd = advised_file(size);
	uint8_t *memory = huge_pages_map(fd, size);

	cr_assert(ne(ptr, memory, MAP_FAILED));
	cr_assert(eq(u64, (uintptr_t)memory % HUGE_PAGE, 0));
	cr_assert(eq(u64, pages_of(fd), 0));
	huge_pages_make(memory, size);
	cr_assert(eq(u64, pages_of(fd), 3 * HUGE_PAGE));
	memory[size - 1] = 1;
	cr_assert(eq(u64, pages_of(fd), 3 * HUGE_PAGE + 4096));
	munmap(memory, size);
	close(fd);
}

/* Nothing beside the file is mapped: what lies behind it faults, or is somebody else's.
 */
Test(huge_pages, a_mapping_is_as_long_as_its_file)
{
	const uint64_t sizes[] = { 4096, HUGE_PAGE - 4096, HUGE_PAGE, HUGE_PAGE + 4096 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		int fd = memfd_create("test", MFD_CLOEXEC);
		unsigned char there;
		uint8_t *memory;

		cr_assert(eq(int, ftruncate(fd, (off_t)sizes[i]), 0));
		memory = huge_pages_map(fd, sizes[i]);
		cr_assert(ne(ptr, memory, MAP_FAILED));
		memory[0] = memory[sizes[i] - 1] = 1;
		cr_assert(eq(int, munmap(memory, sizes[i]), 0));
		cr_assert(eq(int, mincore(memory, 4096, &there), -1));
		cr_assert(eq(int, errno, ENOMEM));
		cr_assert(eq(int, mincore(memory + sizes[i] - 4096, 4096, &there), -1));
		close(fd);
	}
}
