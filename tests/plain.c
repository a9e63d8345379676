/* SPDX-License-Identifier: MIT */
/*
 * A plain runner for Criterion's tests, for builds with the thread sanitizer: Criterion
 * itself can't run there, because the arena that it shares with its test processes
 * lies at addresses that the sanitizer keeps for itself.
 *
 * It takes the place of Criterion's main and of the few functions that a test calls.
 * Every test is a process, one after the other; the output is TAP. Races that the
 * sanitizer reports make the process exit with its own code, and so the test fail.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_SKIPPED 77
#define TIMEOUT	     120

extern struct criterion_test *__start_cr_tst[];
extern struct criterion_test *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[];
extern struct criterion_suite *__stop_cr_sts[];

static const struct criterion_test *running;
static bool failed;

/* Not a second for each of the many processes; races are reported as they happen. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
	return "atexit_sleep_ms=0";
}

/* The fixtures of a test's suite; the project gives none to single tests. */
static const struct criterion_test_extra_data *suite_data(void)
{
	for (struct criterion_suite **suite = __start_cr_sts; suite < __stop_cr_sts;
	     suite++)
		if (!strcmp((*suite)->name, running->category))
			return (*suite)->data;
	return NULL;
}

void criterion_internal_test_setup(void)
{
	if (suite_data() && suite_data()->init)
		suite_data()->init();
}

void criterion_internal_test_main(void (*function)(void))
{
	function();
}

void criterion_internal_test_teardown(void)
{
	if (suite_data() && suite_data()->fini)
		suite_data()->fini();
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
	if (!stats->passed)
		printf("# %s:%u: %s\n", stats->file, stats->line, stats->message);
	failed |= !stats->passed;
}

void cri_asserts_passed_incr(void)
{
}

void criterion_continue_test(void)
{
}

void criterion_abort_test(void)
{
	exit(EXIT_FAILURE);
}

void criterion_skip_test(const char *format, ...)
{
	va_list args;

	printf("# skipped: ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	exit(EXIT_SKIPPED);
}

static int test_run(const struct criterion_test *test)
{
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return -1;
	if (pid == 0) {
		alarm(TIMEOUT);
		running = test;
		test->test();
		exit(failed ? EXIT_FAILURE : EXIT_SUCCESS);
	}
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void)
{
	int n_failed = 0;

	printf("TAP version 13\n1..%td\n", __stop_cr_tst - __start_cr_tst);
	for (struct criterion_test **test = __start_cr_tst; test < __stop_cr_tst;
	     test++) {
		const int status = test_run(*test);
		const bool skipped = status == EXIT_SKIPPED;

		n_failed += status != 0 && !skipped;
		printf("%s - %s::%s%s\n", status == 0 || skipped ? "ok" : "not ok",
		       (*test)->category, (*test)->name, skipped ? " # SKIP" : "");
	}
	return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
