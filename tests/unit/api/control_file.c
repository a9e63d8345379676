/* SPDX-License-Identifier: MIT */
/* The rules of control files: answers, batches, retries, shares, cut lines. */
#include "unit/api/control_file_help.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "model/owner.h"
#include "model/shares.h"

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

Test(control, so_does_a_batch_of_blank_lines)
{
	char lines[100000];

	memset(lines, '\n', sizeof(lines));
	memcpy(lines + sizeof(lines) - 7, "say n\n", 7);
	expect_write(lines, 0, sizeof(lines) - 1);
	cr_expect(not(pthread_equal(runner, pthread_self())));
}

Test(control, so_do_a_few_blank_lines_that_are_long)
{
	char lines[40000];

	memset(lines, ' ', sizeof(lines));
	for (int i = 4000; i < 40000; i += 4000)
		lines[i] = '\n';
	memcpy(lines + sizeof(lines) - 8, "\nsay n\n", 8);
	expect_write(lines, 0, sizeof(lines) - 1);
	cr_expect(not(pthread_equal(runner, pthread_self())));
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

Test(control, so_are_bytes_that_differ_at_the_end_of_many)
{
	static char lines[8192] = "burst\n";

	memset(lines + 6, '\n', sizeof(lines) - 7);
	memcpy(lines + sizeof(lines) - 7, "say b\n", 6);
	expect_write(lines, -EIO, 0);
	lines[sizeof(lines) - 3] = 'c';
	expect_write(lines, -EIO, 0);
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
	/* The batch itself takes 10000 while it is under way. */
	struct owner *owner = opener_with_room_for(12000);
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
	cr_expect(eq(u64, owner->shares.held[SHARE_TEXTS], ((uint64_t)64 << 20) - 12000));
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
