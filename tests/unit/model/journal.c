/* SPDX-License-Identifier: MIT */
#include "model/journal.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/broker.h"

static struct journal journal;

static void start(void)
{
	journal_init(&journal);
}

static void stop(void)
{
	journal_deinit(&journal);
}

TestSuite(journal, .init = start, .fini = stop);

static void fail(uid_t uid, int n)
{
	char sentence[32];

	snprintf(sentence, sizeof(sentence), "n=%d", n);
	journal_fail(&journal, uid, 42, "control/alloc", ENOMEM, sentence);
}

/* The numbers behind `n=` in the lines, in order. Returns: how many. */
static int numbers(const struct text *text, int *ret_numbers, int most)
{
	const char *at = text_string(text);
	int n = 0;

	while ((at = strstr(at, "n=")) && n < most) {
		at += 2;
		ret_numbers[n++] = atoi(at);
	}
	return n;
}

static int failures_of_user(uid_t uid, int *ret_numbers, int most)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	journal_failures(&journal, uid, &text);
	return numbers(&text, ret_numbers, most);
}

Test(journal, users_who_failed_long_ago_are_forgotten)
{
	_cleanup_text_ struct text first = TEXT_INIT, second = TEXT_INIT;

	for (uid_t uid = 1; uid <= FAILURE_USERS_KEPT; uid++)
		journal_fail(&journal, uid, 1, "file", EINVAL, "first");
	journal_fail(&journal, 1, 1, "file", EINVAL, "again");
	journal_fail(&journal, FAILURE_USERS_KEPT + 1, 1, "file", EINVAL, "one more");
	journal_failures(&journal, 1, &first);
	journal_failures(&journal, 2, &second);
	cr_assert(first.length > 0);
	cr_assert(eq(sz, second.length, 0));
}

Test(journal, failure_is_a_line)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	journal_fail(&journal, 1000, 42, "control/alloc", ENOMEM, "no\nway\x01");
	journal_failures(&journal, 1000, &text);
	cr_assert(eq(int, text.data[10], 'T'));
	cr_assert(eq(str, text.data + 20,
		     " pid=42 control/alloc ENOMEM no\\x0away\\x01\n"));
}

Test(journal, each_user_has_his_last_64)
{
	int got[200];

	for (int i = 0; i < 100; i++)
		fail(1000, i);
	fail(1001, 7);
	cr_assert(eq(int, failures_of_user(1000, got, 200), 64));
	for (int i = 0; i < 64; i++)
		cr_assert(eq(int, got[i], 36 + i));
	cr_assert(eq(int, failures_of_user(1001, got, 200), 1));
	cr_assert(eq(int, got[0], 7));
	cr_assert(eq(int, failures_of_user(1002, got, 200), 0));
	cr_assert(eq(u64, journal_n_failures(&journal), 101));
}

Test(journal, root_sees_all_in_the_order_they_happened)
{
	int got[400];

	for (int i = 0; i < 150; i++)
		fail(1000 + (uid_t)(i % 3), i);
	cr_assert(eq(int, failures_of_user(0, got, 400), 150));
	for (int i = 0; i < 150; i++)
		cr_assert(eq(int, got[i], i));
	for (int i = 150; i < 350; i++)
		fail(0, i);
	cr_assert(eq(int, failures_of_user(0, got, 400), 150 + 64));
	for (int i = 0; i < 64; i++)
		cr_assert(eq(int, got[150 + i], 350 - 64 + i));
}

Test(journal, last_1024_events_are_kept_and_numbered)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	int got[2000];

	for (int i = 0; i < 1500; i++)
		journal_event(&journal, "change x n=%d", i);
	journal_events(&journal, &text);
	cr_assert(eq(int, numbers(&text, got, 2000), 1024));
	cr_assert(eq(int, got[0], 1500 - 1024));
	cr_assert(eq(int, got[1023], 1499));
	cr_assert(eq(int, atoi(text.data + 21), 1500 - 1024 + 1));
}

/* ---- readers ---- */

static void count_wake(void *userdata)
{
	(*(int *)userdata)++;
}

Test(journal, reader_takes_what_comes_after_it_was_made)
{
	struct event_reader *reader;
	char bytes[1024];
	size_t length;
	int wakes = 0;

	journal_event(&journal, "before n=0");
	reader = journal_reader_new(&journal, count_wake, &wakes);
	cr_assert(eq(sz, event_reader_take(reader, bytes, sizeof(bytes)), 0));
	journal_event(&journal, "alloc x n=1");
	journal_event(&journal, "free x n=2");
	cr_assert(eq(int, wakes, 1), "it knows already that there are lines");
	length = event_reader_take(reader, bytes, sizeof(bytes));
	bytes[length] = '\0';
	cr_assert(ne(ptr, strstr(bytes, " 2 alloc x n=1\n"), NULL));
	cr_assert(ne(ptr, strstr(bytes, " 3 free x n=2\n"), NULL));
	cr_assert(eq(sz, event_reader_take(reader, bytes, sizeof(bytes)), 0));
	journal_event(&journal, "alloc y n=3");
	cr_assert(eq(int, wakes, 2));
	event_reader_free(reader);
	journal_event(&journal, "after n=4");
	cr_assert(eq(int, wakes, 2));
	cr_assert(eq(ptr, event_reader_free(NULL), NULL));
}

Test(journal, slow_reader_is_told_how_many_it_lost)
{
	struct event_reader *reader;
	int wakes = 0, next = 100;
	char bytes[512];
	size_t length;

	reader = journal_reader_new(&journal, count_wake, &wakes);
	for (int i = 0; i < 1024 + 100; i++)
		journal_event(&journal, "change x n=%d", i);
	length = event_reader_take(reader, bytes, sizeof(bytes) - 1);
	cr_assert(eq(int, memcmp(bytes, "lost 100\n", 9), 0));
	while (length) {
		char *at = bytes;

		bytes[length] = '\0';
		cr_assert(eq(int, bytes[length - 1], '\n'));
		while ((at = strstr(at, "n="))) {
			cr_assert(eq(int, atoi(at + 2), next));
			next++;
			at++;
		}
		length = event_reader_take(reader, bytes, sizeof(bytes) - 1);
	}
	cr_assert(eq(int, next, 1024 + 100));
	event_reader_free(reader);
}

Test(journal, longest_event_fits_the_smallest_read)
{
	struct event_reader *reader;
	char bytes[EVENT_LINE_MAX], what[2000];
	int wakes = 0;

	memset(what, 'x', sizeof(what) - 1);
	what[sizeof(what) - 1] = '\0';
	reader = journal_reader_new(&journal, count_wake, &wakes);
	journal.n_events = UINT64_MAX - 2;
	reader = event_reader_free(reader);
	reader = journal_reader_new(&journal, count_wake, &wakes);
	journal_event(&journal, "%s", what);
	cr_assert(gt(sz, event_reader_take(reader, bytes, sizeof(bytes)), 0));
	event_reader_free(reader);
}
