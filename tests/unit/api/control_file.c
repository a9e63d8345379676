/* SPDX-License-Identifier: MIT */
/*
 * The rules of control files, with a fake verb whose lines are: `say WORD` succeeds at
 * once, `fail` fails before it begins, `burst` fails after it began, and `wait NAME`
 * waits until the test completes the line, from this thread or another.
 */
#include "api/control_file.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "base/workqueue.h"
#include "control/command.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "unit/broker_help.h"

static struct registry registry;
static struct journal journal;
static struct workqueue workqueue;
static struct broker broker = {
	.registry = &registry,
	.journal = &journal,
	.workqueue = &workqueue,
};
static struct control *control;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static struct command *waiting; /* the line under way */
static bool waiting_ends_well;	/* an interrupt answers 0, not EINTR */
static bool interrupt_first;	/* a signal comes while the line begins */
static struct answer answer;
static char ran[4096];	 /* lines run so far */
static pthread_t runner; /* of the last line */

static struct completion *held; /* the completion of `waiting` */

static int fake_cancelled(struct completion **holder)
{
	(void)holder;
	pthread_mutex_lock(&lock);
	waiting = NULL;
	pthread_mutex_unlock(&lock);
	return waiting_ends_well ? 0 : -EINTR;
}

static void fake_wait(struct command *command)
{
	if (interrupt_first)
		broker_interrupt(&broker, &answer.wait);
	pthread_mutex_lock(&registry.lock);
	command->completion.began = true;
	completion_hold(&command->completion, &held, fake_cancelled);
	pthread_mutex_unlock(&registry.lock);
	pthread_mutex_lock(&lock);
	waiting = command;
	pthread_cond_broadcast(&change);
	pthread_mutex_unlock(&lock);
}

static void fake_run(struct command *command)
{
	char line[256];

	runner = pthread_self();
	snprintf(line, sizeof(line), "%.*s", (int)MIN(command->length, (size_t)200),
		 command->bytes);
	if (command->length > LINE_MAX_LENGTH) {
		command_fail(command, E2BIG, "too long");
		return;
	}
	if (strlen(ran) + strlen(line) < sizeof(ran) - 2)
		strcat(strcat(ran, line), ";");
	if (strncmp(line, "say ", 4) == 0) {
		text_printf(&command->answer, "%s\n", line + 4);
		command_done(command, 0);
	} else if (strncmp(line, "wait", 4) == 0) {
		fake_wait(command);
	} else if (strcmp(line, "burst") == 0) {
		command->completion.began = true;
		command_fail(command, EIO, "it burst");
	} else {
		command_fail(command, EINVAL, "%s fails", line);
	}
}

static const struct verb fake = { .name = "fake", .usage = "LINE", .run = fake_run };

static void start(void)
{
	registry_init(&registry);
	journal_init(&journal);
	cr_assert(eq(int, workqueue_init(&workqueue), 0));
	ran[0] = '\0';
	cr_assert(eq(int,
		     control_new(&control, &broker, &fake, TOKEN_NONE, &nobody_special),
		     0));
}

static void stop(void)
{
	workqueue_deinit(&workqueue);
	control = control_free(control);
	journal_deinit(&journal);
	registry_deinit(&registry);
}

TestSuite(control, .init = start, .fini = stop, .timeout = 30);

static void begin(const char *lines)
{
	control_write(control, 42, lines, strlen(lines), answer_expect(&answer));
}

static void flush(void)
{
	control_flush(control, 42, answer_expect(&answer));
}

static void expect_answer(int error, size_t length)
{
	cr_expect(eq(int, answer_get(&answer), error));
	if (!error)
		cr_expect(eq(sz, answer.length, length));
}

static void expect_write(const char *lines, int error, size_t length)
{
	begin(lines);
	expect_answer(error, length);
}

static void expect_read(const char *expected)
{
	char bytes[2048];
	size_t length = 0, n;

	while ((n = control_read(control, bytes + length, 7)))
		length += n;
	bytes[length] = '\0';
	cr_expect(eq(str, bytes, (char *)expected));
}

static void expect_ran(const char *expected)
{
	cr_expect(eq(str, ran, (char *)expected));
}

/* Waits for a line under way and takes the line. */
static struct command *wait_for_line(void)
{
	struct command *command;

	pthread_mutex_lock(&lock);
	while (!waiting)
		pthread_cond_wait(&change, &lock);
	command = take_ptr(waiting);
	pthread_mutex_unlock(&lock);
	pthread_mutex_lock(&registry.lock);
	(void)completion_take(&held);
	pthread_mutex_unlock(&registry.lock);
	return command;
}

/* ---- reading ---- */

Test(control, fresh_descriptor_reads_its_usage_once)
{
	expect_read("LINE\n");
	expect_read("");
}

Test(control, answer_is_read_after_a_write_and_again_after_the_next)
{
	expect_write("say one\n", 0, 8);
	expect_read("one\n");
	expect_read("");
	expect_write("say two\n", 0, 8);
	expect_read("two\n");
}

Test(control, a_long_batch_leaves_the_thread_that_wrote_it)
{
	char lines[4096] = "";
	char *end = lines;

	for (int i = 0; i < 500; i++)
		end = stpcpy(end, "say n\n");
	expect_write(lines, 0, 3000);
	cr_expect(not(pthread_equal(runner, pthread_self())));
	expect_write("say one\nsay two\n", 0, 16);
	cr_expect(pthread_equal(runner, pthread_self()));
}

Test(control, answers_of_a_batch_are_parted_by_an_empty_line)
{
	expect_write("say one\nsay two\n", 0, 16);
	expect_read("one\n\ntwo\n");
}

Test(control, sentence_is_read_after_a_failure)
{
	expect_write("no\n", -EINVAL, 0);
	expect_read("no fails\n");
}

Test(control, sentence_takes_the_place_of_answers_that_were_read_already)
{
	begin("say a long first answer\nwait\n");
	expect_read("a long first answer\n");
	command_fail(wait_for_line(), EIO, "bad");
	expect_answer(0, 24);
	expect_read("line 2: bad\n");
}

/* ---- batches ---- */

Test(control, batch_is_done_in_order_without_its_blank_lines)
{
	expect_write("say a\n\n \t\r\nsay b\n\nsay c\n", 0, 24);
	expect_ran("say a;say b;say c;");
}

Test(control, unterminated_line_is_done_at_once)
{
	expect_write("say a\nsay b", 0, 11);
	expect_ran("say a;say b;");
}

Test(control, nothing_but_blanks_is_taken_and_does_nothing)
{
	expect_write("\n \n", 0, 3);
	expect_write("", 0, 0);
	expect_ran("");
}

Test(control, batch_stops_at_the_line_that_fails_and_the_error_comes_once)
{
	expect_write("say a\nno\nsay b\n", 0, 6);
	expect_write("no\nsay b\n", -EINVAL, 0);
	expect_ran("say a;no;");
	expect_write("say c\n", 0, 6);
	expect_ran("say a;no;say c;");
}

Test(control, first_line_that_fails_is_the_error_of_the_write)
{
	expect_write("no\nsay b\n", -EINVAL, 0);
	expect_write("say c\n", 0, 6);
	expect_ran("no;say c;");
}

Test(control, failure_names_its_line_in_the_batch)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	expect_write("say a\n\nno\n", 0, 7);
	journal_failures(&journal, 1000, &text);
	cr_assert(strstr(text_string(&text),
			 " pid=42 control/fake EINVAL line 3: no fails\n") != NULL,
		  "%s", text_string(&text));
}

/* ---- retries ---- */

Test(control, line_that_failed_before_it_began_is_run_again)
{
	expect_write("no\n", -EINVAL, 0);
	expect_write("no\n", -EINVAL, 0);
	expect_ran("no;no;");
}

Test(control, line_that_failed_after_it_began_is_not_run_again)
{
	expect_write("burst\n", -EIO, 0);
	expect_write("burst\n", -EIO, 0);
	expect_write("burst\n", -EIO, 0);
	expect_ran("burst;");
	expect_write("say a\n", 0, 6);
	expect_write("burst\n", -EIO, 0);
	expect_ran("burst;say a;burst;");
}

Test(control, rest_of_a_batch_that_failed_is_not_run_again)
{
	expect_write("say a\nburst\nsay b\n", 0, 6);
	expect_write("burst\nsay b\n", -EIO, 0);
	expect_write("burst\nsay b\n", -EIO, 0);
	expect_ran("say a;burst;");
	expect_write("say b\n", 0, 6);
	expect_ran("say a;burst;say b;");
}

Test(control, other_bytes_of_the_same_length_are_run_after_a_failure)
{
	expect_write("burst\nsay b\n", -EIO, 0);
	expect_write("burst\nsay c\n", -EIO, 0);
	expect_ran("burst;burst;");
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* Of the sanitizers' runtime; gcc has no header for this function. */
size_t __sanitizer_get_current_allocated_bytes(void);
#define heap_used __sanitizer_get_current_allocated_bytes
#else
static size_t heap_used(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}
#endif

/* No share is charged for a failed batch: a user may have many descriptors. */
Test(control, a_failed_batch_is_recognised_without_keeping_its_bytes)
{
	static char lines[1 << 20] = "burst\n";
	size_t used;

	memset(lines + 6, '\n', sizeof(lines) - 7);
	used = heap_used();
	expect_write(lines, -EIO, 0);
	cr_expect(lt(sz, heap_used(), used + 65536));
	expect_write(lines, -EIO, 0);
	expect_ran("burst;");
}

/* ---- the opener's share ---- */

/* The opener's share of texts, all but so many bytes of it in use. */
static struct owner *opener_with_room_for(uint64_t n)
{
	struct owner *owner =
		owner_get(&registry, nobody_special.uid, nobody_special.gid);

	cr_assert(owner != NULL);
	cr_assert(eq(int, share_take(owner, SHARE_TEXTS, ((uint64_t)64 << 20) - n), 0));
	return owner;
}

Test(control, batch_ends_where_its_answers_are_beyond_the_share)
{
	struct owner *owner = opener_with_room_for(4096);
	char lines[100 * 100 + 1], byte;
	size_t length = 0, taken;

	for (int i = 0; i < 100; i++)
		snprintf(lines + 100 * (size_t)i, 101, "say %095d\n", i);
	begin(lines);
	cr_expect(eq(int, answer_get(&answer), 0));
	taken = answer.length;
	cr_assert(lt(sz, taken, 10000));
	cr_expect(eq(sz, taken % 100, 0));
	expect_write(lines + taken, -EDQUOT, 0);
	while (control_read(control, &byte, 1))
		length++;
	/* The answer to `say WORD` is WORD; an empty line parts two answers. */
	cr_expect(eq(sz, length, taken / 100 * 97 - 1));
	expect_write(lines + 10000 - 1000, 0, 1000);
	control = control_free(control);
	cr_expect(eq(u64, owner->shares.held[SHARE_TEXTS], ((uint64_t)64 << 20) - 4096));
	cr_assert(eq(int,
		     control_new(&control, &broker, &fake, TOKEN_NONE, &nobody_special),
		     0));
}

Test(control, unread_answers_are_charged_until_they_are_read)
{
	struct owner *owner = opener_with_room_for((uint64_t)64 << 20);
	char lines[100 * 100 + 1], bytes[4096];

	for (int i = 0; i < 100; i++)
		snprintf(lines + 100 * (size_t)i, 101, "say %095d\n", i);
	expect_write(lines, 0, 10000);
	cr_expect(gt(u64, owner->shares.held[SHARE_TEXTS], 8192));
	while (control_read(control, bytes, sizeof(bytes)))
		continue;
	cr_expect(eq(u64, owner->shares.held[SHARE_TEXTS], 0));
}

/* 16384 open descriptors of a user with 65536 groups would be 4 GiB. */
Test(control, long_list_of_groups_is_charged_while_the_descriptor_is_open)
{
	struct owner *owner = opener_with_room_for(10000);
	static gid_t groups[2000];
	struct caller caller = nobody_special;
	struct control *first, *second;

	caller.groups = groups;
	caller.n_groups = ARRAY_SIZE(groups);
	cr_assert(eq(int, control_new(&first, &broker, &fake, TOKEN_NONE, &caller), 0));
	cr_expect(eq(int, control_new(&second, &broker, &fake, TOKEN_NONE, &caller),
		     -EDQUOT));
	control_free(first);
	cr_expect(eq(u64, owner->shares.held[SHARE_TEXTS], ((uint64_t)64 << 20) - 10000));
	cr_assert(eq(int, control_new(&second, &broker, &fake, TOKEN_NONE, &caller), 0));
	control_free(second);
}

/* ---- lines cut by the end of a buffer ---- */

/* A write of a multiple of 4096 bytes: blank lines, then text without a newline. */
static char *cut_write(const char *text, size_t length)
{
	char *bytes = malloc(length + 1);

	memset(bytes, '\n', length);
	memcpy(bytes + length - strlen(text), text, strlen(text));
	bytes[length] = '\0';
	return bytes;
}

Test(control, cut_line_waits_for_the_next_write)
{
	char *bytes = cut_write("say a\nsay hel", 4096);

	expect_write(bytes, 0, 4096);
	expect_ran("say a;");
	expect_write("lo\nsay b\n", 0, 9);
	expect_ran("say a;say hello;say b;");
	free(bytes);
}

Test(control, cut_line_is_done_at_close)
{
	char *bytes = cut_write("say a", 8192);

	expect_write(bytes, 0, 8192);
	expect_ran("");
	flush();
	expect_answer(0, 0);
	expect_ran("say a;");
	flush();
	expect_answer(0, 0);
	expect_ran("say a;");
	free(bytes);
}

Test(control, cut_line_is_charged_to_the_opener)
{
	struct owner *owner = opener_with_room_for(10);
	uint64_t before = owner->shares.held[SHARE_TEXTS];
	char *bytes = cut_write("say a\nsay hel", 4096);

	expect_write(bytes, 0, 4096);
	cr_expect(eq(u64, owner->shares.held[SHARE_TEXTS], before + 7));
	expect_write("lo\n", 0, 3);
	cr_expect(eq(u64, owner->shares.held[SHARE_TEXTS], before));
	share_take_beyond(owner, SHARE_TEXTS, 5);
	expect_write(bytes, 0, 4096 - 7);
	expect_write("say hel", -EDQUOT, 0);
	expect_write("say a\n", 0, 6);
	expect_ran("say a;say hello;say a;say a;");
	free(bytes);
}

Test(control, close_says_that_the_cut_line_failed)
{
	char *bytes = cut_write("no", 4096);

	expect_write(bytes, 0, 4096);
	flush();
	expect_answer(-EINVAL, 0);
	flush();
	expect_answer(0, 0);
	free(bytes);
}

Test(control, full_write_that_ends_a_line_waits_for_nothing)
{
	char *bytes = cut_write("say a\n", 4096);

	expect_write(bytes, 0, 4096);
	expect_ran("say a;");
	free(bytes);
}

Test(control, cut_line_that_fails_takes_nothing_of_the_write_that_ends_it)
{
	char *bytes = cut_write("n", 4096);

	expect_write(bytes, 0, 4096);
	expect_write("o\nsay a\n", -EINVAL, 0);
	expect_ran("no;");
	free(bytes);
}

Test(control, cut_line_grows_no_longer_than_a_line)
{
	char *bytes = malloc(4097);

	memset(bytes, 'x', 4096);
	bytes[4096] = '\0';
	expect_write(bytes, 0, 4096);
	expect_write(bytes, -E2BIG, 0);
	expect_write("say a\n", 0, 6);
	expect_ran("say a;");
	free(bytes);
}

/* ---- waiting ---- */

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
