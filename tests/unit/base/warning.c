/* SPDX-License-Identifier: MIT */
#include "base/warning.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static struct warnings *queue;

static void start(void)
{
	queue = warnings_new();
	cr_assert(queue != NULL);
}

static void stop(void)
{
	queue = warnings_free(queue);
}

TestSuite(warning, .init = start, .fini = stop);

/* Takes all that are left. Returns: how many; *ret_last is the last. */
static unsigned int take_all(struct warning *ret_last)
{
	unsigned int n = 0;

	warnings_end(queue);
	while (warnings_take(queue, ret_last))
		n++;
	return n;
}

Test(warning, warnings_come_in_order)
{
	struct warning warning;

	warnings_add(queue, WARNING_WORKER_ENDED, 7, "owners/7/worker", "first %d", 1);
	warnings_add(queue, WARNING_MEMORY_LOST, 7, "owners/7", "second");
	cr_assert(warnings_take(queue, &warning));
	cr_assert(eq(str, warning.sentence, "first 1"));
	cr_assert(eq(str, warning.object, "owners/7/worker"));
	cr_assert(eq(uint, warning.uid, 7));
	cr_assert(eq(int, warning.kind, WARNING_WORKER_ENDED));
	cr_assert(warnings_take(queue, &warning));
	cr_assert(eq(str, warning.sentence, "second"));
	cr_assert(eq(uint, take_all(&warning), 0));
}

Test(warning, a_user_can_not_forge_a_line)
{
	struct warning warning;

	warnings_add(queue, WARNING_LIMIT, 7, "file", "%s", "a\ngpumemd: b\033[2J");
	cr_assert(warnings_take(queue, &warning));
	cr_assert(eq(str, warning.sentence, "a\\x0agpumemd: b\\x1b[2J"));
}

Test(warning, many_of_a_user_are_counted_and_others_are_heard)
{
	struct warning warning;

	for (int i = 0; i < 1000; i++)
		warnings_add(queue, WARNING_LIMIT, 7, "file", "number %d", i);
	warnings_add(queue, WARNING_LIMIT, 8, "file", "of another");
	warnings_add(queue, WARNING_DEVICE, 7, "file", "of another kind");
	for (int i = 0; i < WARNINGS_IN_WINDOW; i++) {
		cr_assert(warnings_take(queue, &warning));
		cr_assert(eq(uint, warning.uid, 7));
	}
	cr_assert(warnings_take(queue, &warning));
	cr_assert(eq(str, warning.sentence, "of another"));
	cr_assert(warnings_take(queue, &warning));
	cr_assert(eq(str, warning.sentence, "of another kind"));
	cr_assert(eq(uint, take_all(&warning), 1));
	cr_assert(eq(str, warning.sentence,
		     "995 more such of uid 7; the last: number 999"));
	cr_assert(eq(int, warning.kind, WARNING_LIMIT));
}

Test(warning, nothing_is_lost_unsaid_when_nobody_takes_them)
{
	struct warning warning;
	unsigned int n = 0, more;

	for (uid_t uid = 1; uid <= 100; uid++)
		warnings_add(queue, WARNING_LIMIT, uid, "file", "one");
	warnings_end(queue);
	while (warnings_take(queue, &warning))
		n += sscanf(warning.sentence, "%u more such", &more) == 1 ? more : 1;
	cr_assert(eq(uint, n, 100));
}

Test(warning, more_users_than_are_counted_are_left_out)
{
	struct warning warning;

	for (uid_t uid = 1; uid <= 100000; uid++)
		warnings_add(queue, WARNING_LIMIT, uid, "file", "one");
	cr_assert(lt(uint, take_all(&warning), 400));
}

Test(warning, each_kind_has_an_id_of_its_own)
{
	for (int i = 0; i < N_WARNING_KINDS; i++) {
		cr_assert(eq(sz, strlen(warning_classes[i].id), 32));
		for (const char *at = warning_classes[i].id; *at; at++)
			cr_assert(ne(int, isxdigit(*at), 0));
		for (int j = 0; j < i; j++)
			cr_assert(ne(int,
				     strcmp(warning_classes[i].id, warning_classes[j].id),
				     0));
	}
}

Test(warning, nobody_wants_them)
{
	warnings_add(NULL, WARNING_LIMIT, 7, "file", "unheard");
}
