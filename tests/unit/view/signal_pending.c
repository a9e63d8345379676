/* SPDX-License-Identifier: MIT */
#include "signal_pending.h"

#include "base/def.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>

#define BIT(signal) (1ull << ((signal)-1))

static bool ends(uint64_t thread, uint64_t group, uint64_t blocked, uint64_t ignored,
		 uint64_t caught)
{
	char status[512];

	snprintf(status, sizeof(status),
		 "Name:\tx\nSigQ:\t0/1\nSigPnd:\t%016llx\nShdPnd:\t%016llx\n"
		 "SigBlk:\t%016llx\nSigIgn:\t%016llx\nSigCgt:\t%016llx\nCapInh:\t0\n",
		 (unsigned long long)thread, (unsigned long long)group,
		 (unsigned long long)blocked, (unsigned long long)ignored,
		 (unsigned long long)caught);
	return signal_ends_wait(status);
}

Test(pending, nothing_pending_goes_on)
{
	cr_assert(!ends(0, 0, 0, 0, 0));
	cr_assert(!ends(0, 0, ~0ull, ~0ull, ~0ull));
}

Test(pending, each_that_ends_a_wait_ends_it_for_thread_and_group)
{
	static const int signals[] = { SIGINT,	SIGTERM, SIGHUP,  SIGQUIT, SIGKILL,
				       SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGALRM };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		uint64_t bit = BIT(signals[i]);

		cr_assert(ends(bit, 0, 0, 0, 0), "%d", signals[i]);
		cr_assert(ends(0, bit, 0, 0, bit), "%d", signals[i]);
	}
}

Test(pending, a_thread_without_descriptors_is_ending)
{
	cr_assert(signal_ends_wait("Name:\tx\nFDSize:\t0\nSigPnd:\t0\nSigBlk:\t0\n"));
	cr_assert(!signal_ends_wait("Name:\tx\nFDSize:\t64\nSigPnd:\t0\nSigBlk:\t0\n"));
}

Test(pending, threads_of_the_kernel_have_no_memory)
{
	cr_assert(status_is_of_kernel("Name:\tkworker\nPPid:\t2\nFDSize:\t64\n"));
	cr_assert(!(status_is_of_kernel(
		"Name:\tx\nPPid:\t2\nFDSize:\t64\nVmSize:\t    8 kB\n")));
	cr_assert(!(status_is_of_kernel("Name:\tx\nPPid:\t20\nFDSize:\t64\n")));
}

Test(pending, those_ignored_by_default_never_do)
{
	static const int signals[] = { SIGCHLD, SIGURG, SIGWINCH, SIGCONT };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		uint64_t bit = BIT(signals[i]);

		cr_assert(!ends(bit, bit, 0, 0, 0), "%d", signals[i]);
		cr_assert(!ends(bit, bit, 0, 0, bit), "%d", signals[i]);
	}
}

Test(pending, blocked_and_ignored_go_on_but_not_kill)
{
	cr_assert(!ends(BIT(SIGINT), 0, BIT(SIGINT), 0, 0));
	cr_assert(!ends(0, BIT(SIGINT), 0, BIT(SIGINT), 0));
	cr_assert(ends(BIT(SIGKILL), 0, ~0ull, ~0ull, 0));
	cr_assert(ends(BIT(SIGINT) | BIT(SIGTERM), 0, BIT(SIGINT), 0, 0));
}

Test(pending, a_thread_that_is_not_there_ends)
{
	cr_assert(!signal_status(0x3ffffff));
}

Test(pending, this_thread_goes_on)
{
	char *status = signal_status(getpid());

	cr_assert(status && !signal_ends_wait(status));
	free(status);
}
