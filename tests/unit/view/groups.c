/* SPDX-License-Identifier: MIT */
/* The linker puts a close(2) in front of the other that may take long. */
#include "groups.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"

static uint64_t close_ns;

int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_close(int fd)
{
	uint64_t until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + close_ns;

	while (close_ns && clock_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		;
	return __real_close(fd);
}

static void look(struct groups_seen *seen, uid_t uid)
{
	gid_t *groups = NULL;

	cr_assert(ge(int, groups_of(seen, gettid(), uid, &groups), 0));
	free(groups);
}

/* Locks on a file make each close of the file long. */
Test(groups, who_makes_a_look_long_counts_as_one_with_many_groups)
{
	struct groups_seen *seen = calloc(1, sizeof(*seen));

	look(seen, 1000);
	cr_expect(not(groups_are_many(seen, 1000)));
	close_ns = 20000000;
	look(seen, 1000);
	cr_expect(groups_are_many(seen, 1000));
	cr_expect(not(groups_are_many(seen, 1001)));
	close_ns = 0;
	look(seen, 1000);
	cr_expect(groups_are_many(seen, 1000));
	free(seen);
}
