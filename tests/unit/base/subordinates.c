/* SPDX-License-Identifier: MIT */
#include "base/subordinates.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <unistd.h>

#define RANGE (UINT64_C(1) << 32)

static char path[] = "/tmp/gpumem-subuid-XXXXXX";
static struct subordinates *subordinates;

static void file_is(const char *text)
{
	FILE *file = fopen(path, "w");

	cr_assert(ne(ptr, file, NULL));
	cr_assert(ge(int, fputs(text, file), 0));
	cr_assert(eq(int, fclose(file), 0));
}

static void start(void)
{
	int fd = mkstemp(path);

	cr_assert(ge(int, fd, 0));
	close(fd);
}

static void stop(void)
{
	subordinates = subordinates_free(subordinates);
	unlink(path);
}

TestSuite(subordinates, .init = start, .fini = stop);

Test(subordinates, uids_of_a_range_are_one_user)
{
	file_is("bob:165536:65536\nalice:100000:65536\n1003:300000:1\n");
	subordinates = subordinates_new(path);
	cr_expect(eq(u64, subordinates_user(subordinates, 0), 0));
	cr_expect(eq(u64, subordinates_user(subordinates, 99999), 99999));
	cr_expect(eq(u64, subordinates_user(subordinates, 100000), RANGE | 100000));
	cr_expect(eq(u64, subordinates_user(subordinates, 165535), RANGE | 100000));
	cr_expect(eq(u64, subordinates_user(subordinates, 165536), RANGE | 165536));
	cr_expect(eq(u64, subordinates_user(subordinates, 231072), 231072));
	cr_expect(eq(u64, subordinates_user(subordinates, 300000), RANGE | 300000));
	cr_expect(eq(u64, subordinates_user(subordinates, 300001), 300001));
	cr_expect(eq(i64, subordinates_first(RANGE | 165536), 165536));
	cr_expect(eq(i64, subordinates_first(1000), -1));
}

Test(subordinates, lines_of_root_and_broken_lines_are_ignored)
{
	file_is("root:100000:65536\n0:200000:10\n\n# text\nx\nx:1\nx:y:z\nx:5:0\n"
		"x:99999999999:5\nmallory:4294967290:100");
	subordinates = subordinates_new(path);
	cr_expect(eq(u64, subordinates_user(subordinates, 100001), 100001));
	cr_expect(eq(u64, subordinates_user(subordinates, 200001), 200001));
	cr_expect(eq(u64, subordinates_user(subordinates, 5), 5));
	cr_expect(
		eq(u64, subordinates_user(subordinates, UINT32_MAX), RANGE | 4294967290));
}

Test(subordinates, a_changed_file_is_read_again)
{
	subordinates = subordinates_new("/nonexistent/subuid");
	cr_expect(eq(u64, subordinates_user(subordinates, 100000), 100000));
	subordinates_free(subordinates);
	file_is("alice:100000:65536\n");
	subordinates = subordinates_new(path);
	file_is("alice:200000:65536\nbob:100000:2\n");
	subordinates_look(subordinates);
	cr_expect(eq(u64, subordinates_user(subordinates, 100001), RANGE | 100000));
	cr_expect(eq(u64, subordinates_user(subordinates, 100002), 100002));
	unlink(path);
	subordinates_look(subordinates);
	cr_expect(eq(u64, subordinates_user(subordinates, 100001), 100001));
}
