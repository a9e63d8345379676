/* SPDX-License-Identifier: MIT */
#include "base/process.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void *process_of_this_thread(void *ret_process)
{
	cr_assert(ne(int, gettid(), getpid()));
	*(pid_t *)ret_process = process_of_thread(gettid());
	return NULL;
}

Test(process, a_thread_belongs_to_its_process)
{
	pid_t process = 0;
	pthread_t thread;

	cr_assert(eq(int, process_of_thread(getpid()), getpid()));
	cr_assert(zero(int,
		       pthread_create(&thread, NULL, process_of_this_thread, &process)));
	pthread_join(thread, NULL);
	cr_assert(eq(int, process, getpid()));
}

Test(process, a_thread_that_is_gone_is_its_own)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	cr_assert(eq(int, process_of_thread(child), child));
}
