/* SPDX-License-Identifier: MIT */
/* Searches that take longer than their limit. */
#include "process/outside.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/def.h"
#include "base/spawner.h"

static struct spawner spawner;
static struct outside outside;
static char program[] = "/tmp/gpumem-search.XXXXXX";

/* A worker program that never finds the file. */
static void begin(void)
{
	static const char script[] = "#!/bin/sh\nexec sleep 100\n";
	int fd = mkstemp(program);

	cr_assert(eq(long, write(fd, script, sizeof(script) - 1), sizeof(script) - 1));
	cr_assert(eq(int, fchmod(fd, 0755), 0));
	close(fd);
	cr_assert(eq(int, spawner_init(&spawner), 0));
	outside_init(&outside, &spawner);
}

static void end(void)
{
	spawner_deinit(&spawner);
	unlink(program);
}

TestSuite(outside, .init = begin, .fini = end, .timeout = 60);

static int search(uint64_t user)
{
	return outside_open(&outside, program, user, "/nowhere");
}

static void *search_late(void *user)
{
	cr_expect(eq(int, search((uintptr_t)user), -ETIMEDOUT));
	return NULL;
}

/* Searches of so many users at a time, from the first one on. */
static void search_all(uintptr_t first, uintptr_t n)
{
	pthread_t threads[OUTSIDE_MANY];

	for (uintptr_t i = 0; i < n; i++)
		cr_assert(eq(int,
			     pthread_create(&threads[i], NULL, search_late,
					    (void *)(first + i)),
			     0));
	for (uintptr_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	usleep(100000); /* the late processes end by SIGKILL */
}

Test(outside, a_late_user_searches_again)
{
	search_all(1, 1);
	cr_expect(eq(int, search(1), -ETIMEDOUT));
}

/* Else they take all threads by turns, each for the time limit. */
Test(outside, late_users_pause_where_there_are_many)
{
	search_all(1, OUTSIDE_MANY);
	for (uint64_t user = 1; user <= OUTSIDE_MANY; user++)
		cr_expect(eq(int, search(user), -EBUSY));
	cr_expect(eq(int, search(OUTSIDE_MANY + 1), -ETIMEDOUT));
}
