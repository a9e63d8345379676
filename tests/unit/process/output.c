/* SPDX-License-Identifier: MIT */
/* The output of kernels, from a worker's pipe to the readers. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/def.h"
#include "base/text.h"
#include "process/output.h"
#include "record/records.h"

static struct outputs outputs;
static struct output *output;

static void open_outputs(void)
{
	cr_assert(eq(int, outputs_init(&outputs), 0));
	output = output_new(&outputs, NULL, 0);
}

static void close_outputs(void)
{
	outputs_deinit(&outputs);
	output_free(output);
}

TestSuite(output, .init = open_outputs, .fini = close_outputs, .timeout = 20);

static void show(struct text *text)
{
	output_drain(output);
	output_show(output, text);
}

Test(output, what_was_written_is_seen_at_once)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	_cleanup_close_ int pipe = output_open(output);

	cr_assert(eq(long, write(pipe, "a line\n", 7), 7));
	show(&text);
	cr_assert(eq(str, (char *)text_string(&text), (char *)"a line\n"));
}

/* The read end of the pipe. */
static int other_end(int pipe)
{
	struct stat own, other;

	fstat(pipe, &own);
	for (int fd = 3; fd < 1024; fd++)
		if (fd != pipe && fstat(fd, &other) == 0 && other.st_dev == own.st_dev &&
		    other.st_ino == own.st_ino)
			return fd;
	cr_fatal("the pipe has one end");
}

/* /dev/zero never runs dry, like the pipe of a process that writes without pause. */
Test(output, a_process_that_writes_without_end_keeps_nobody)
{
	_cleanup_text_ struct text text = TEXT_INIT;
	_cleanup_close_ int pipe = output_open(output);
	_cleanup_close_ int endless = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	cr_assert(ge(int, dup2(endless, other_end(pipe)), 0));
	show(&text);
	cr_assert(eq(sz, text.length, OUTPUT_KEPT));
}

/* ---- the next broker ---- */

/* The ring begins anew after RECORD_OUTPUT_BYTES. */
Test(output, the_next_broker_shows_the_same_bytes)
{
	_cleanup_text_ struct text before = TEXT_INIT, after = TEXT_INIT, why = TEXT_INIT;
	struct records *records, *next;
	struct output *printed;
	char line[100];
	int pipe;

	cr_assert(eq(int, records_new(&records), 0));
	printed = output_new(&outputs, records, 7);
	pipe = output_open(printed);
	for (int i = 0; i < 10000; i++) {
		int length = snprintf(line, sizeof(line), "line %d\n", i);

		cr_assert(eq(long, write(pipe, line, (size_t)length), (long)length));
		if (i % 1000 == 0)
			output_drain(printed);
	}
	output_drain(printed);
	output_show(printed, &before);
	cr_assert(eq(int, records_open(&next, records_fd(records), &why), 0));
	/* What is printed later is not the next broker's, and changes none of its bytes.
	 */
	cr_assert(eq(long, write(pipe, line, strlen(line)), (long)strlen(line)));
	output_drain(printed);
	close(pipe);
	while (output_is_open(printed))
		sched_yield();
	output_free(printed);
	cr_assert(eq(ptr, (void *)records_get(records, RECORD_OUTPUT, 1), NULL));

	printed = output_restore(&outputs, next, 1);
	output_show(printed, &after);
	cr_assert(gt(sz, after.length, OUTPUT_KEPT - sizeof(line)));
	cr_assert(eq(str, (char *)text_string(&after), (char *)text_string(&before)));
	output_free(printed);
	records_free(next);
	records_free(records);
}
