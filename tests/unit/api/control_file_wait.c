/* SPDX-License-Identifier: MIT */
/* Lines of control files that wait: in other threads, refused meanwhile, interrupted. */
#include "unit/api/control_file_help.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

static void *finish_elsewhere(void *userdata)
{
	for (int i = 0; i < *(int *)userdata; i++)
		command_done(wait_for_line(), 0);
	return NULL;
}

Test(control, lines_end_in_another_thread)
{
	_cleanup_text_ struct text lines = TEXT_INIT;
	pthread_t thread;
	int n = 500;

	for (int i = 0; i < n; i++)
		text_printf(&lines, "wait %d\n", i);
	pthread_create(&thread, NULL, finish_elsewhere, &n);
	begin(text_string(&lines));
	expect_answer(0, lines.length);
	pthread_join(thread, NULL);
}

Test(control, long_batch_needs_no_deep_stack)
{
	_cleanup_text_ struct text lines = TEXT_INIT;

	text_printf(&lines, "wait\n");
	for (int i = 0; i < 100000; i++)
		text_printf(&lines, "say a\n");
	begin(text_string(&lines));
	command_done(wait_for_line(), 0);
	expect_answer(0, lines.length);
}

Test(control, write_while_one_waits_is_refused)
{
	struct answer other;

	begin("wait\n");
	control_write(control, 43, "say a\n", 6, answer_expect(&other));
	cr_assert(eq(int, answer_get(&other), -EBUSY));
	command_done(wait_for_line(), 0);
	expect_answer(0, 5);
}

Test(control, who_is_refused_meanwhile_is_not_named_for_the_lines_that_follow)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	struct answer other;

	begin("wait\nno\n");
	control_write(control, 43, "say a\n", 6, answer_expect(&other));
	cr_assert(eq(int, answer_get(&other), -EBUSY));
	command_done(wait_for_line(), 0);
	answer_get(&answer);
	journal_failures(&journal, 1000, &text);
	cr_assert(strstr(text_string(&text), " pid=42 control/fake ") != NULL, "%s",
		  text_string(&text));
	cr_assert(strstr(text_string(&text), " pid=43 control/fake EINVAL") == NULL, "%s",
		  text_string(&text));
}

Test(control, interrupted_line_answers_as_it_says)
{
	begin("wait\n");
	broker_interrupt(&broker, &answer.wait);
	expect_answer(-EINTR, 0);
	expect_write("say a\n", 0, 6);
	waiting_ends_well = true;
	begin("wait\n");
	broker_interrupt(&broker, &answer.wait);
	expect_answer(0, 5);
}

Test(control, interrupt_within_a_line_ends_the_batch_behind_it)
{
	waiting_ends_well = true;
	begin("say a\nwait\nsay b\n");
	broker_interrupt(&broker, &answer.wait);
	expect_answer(0, 11);
	expect_ran("say a;wait;");
	expect_write("say b\n", 0, 6);
}

Test(control, interrupt_within_a_line_that_ends_badly_keeps_what_was_done)
{
	begin("say a\nwait\nsay b\n");
	broker_interrupt(&broker, &answer.wait);
	expect_answer(0, 6);
	expect_write("say c\n", 0, 6);
	expect_ran("say a;wait;say c;");
}

/* The line can't be cancelled any more. The line ends by itself; then the batch ends. */
Test(control, interrupt_that_comes_too_late_for_a_line_ends_the_batch_after_it)
{
	struct command *command;

	begin("wait\nsay b\n");
	command = wait_for_line();
	broker_interrupt(&broker, &answer.wait);
	command_done(command, 0);
	expect_answer(0, 5);
	expect_ran("wait;");
}

/* A signal comes between two lines of a batch, while the second line begins. The view
 * reports a signal only once. */
Test(control, interrupt_while_a_line_begins_ends_its_wait)
{
	begin("wait\nwait\n");
	interrupt_first = true;
	command_done(wait_for_line(), 0);
	expect_answer(0, 5);
	expect_ran("wait;wait;");
}
