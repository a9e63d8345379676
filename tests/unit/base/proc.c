/* SPDX-License-Identifier: MIT */
/* Locks of users on files of /proc are not on the files that the broker closes. */
#include "base/proc.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/def.h"

TestSuite(proc, .timeout = 60);

/* Whether the lock that is there is seen through the descriptor, by another owner. */
static bool is_locked(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };

	cr_assert(eq(int, fcntl(fd, F_OFD_GETLK, &lock), 0));
	return lock.l_type != F_UNLCK;
}

Test(proc, files_are_those_of_an_own_instance)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1 };
	_cleanup_close_ int user = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int other = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int ours = proc_open("self/stat", O_RDONLY);

	if (geteuid() != 0)
		cr_skip("only root has an instance of its own");
	cr_assert(eq(int, fcntl(user, F_OFD_SETLK, &lock), 0));
	cr_expect(is_locked(other));
	cr_expect(not(is_locked(ours)));
}

Test(proc, a_stream_reads_the_same)
{
	char text[64] = "", ours[64] = "";
	FILE *file = fopen("/proc/sys/kernel/ostype", "re");

	cr_assert(ne(ptr, fgets(text, sizeof(text), file), NULL));
	fclose(file);
	file = proc_fopen("sys/kernel/ostype");
	cr_assert(ne(ptr, fgets(ours, sizeof(ours), file), NULL));
	fclose(file);
	cr_expect(eq(str, ours, text));
	cr_expect(eq(ptr, proc_fopen("0/stat"), NULL));
}
