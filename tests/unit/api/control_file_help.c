/* SPDX-License-Identifier: MIT */
#include "unit/api/control_file_help.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/workqueue.h"

struct registry registry;
struct journal journal;
static struct workqueue workqueue;
struct broker broker = {
	.registry = &registry,
	.journal = &journal,
	.workqueue = &workqueue,
	.user_lanes = &workqueue,
};
struct control *control;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static struct command *waiting; /* the line under way */
bool waiting_ends_well;
bool interrupt_first;
struct answer answer;
static char ran[4096]; /* lines run so far */
pthread_t runner;

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

const struct verb fake = { .name = "fake", .usage = "LINE", .run = fake_run };

static void start(void)
{
	registry_init(&registry);
	journal_init(&journal);
	cr_assert(eq(int, workqueue_init(&workqueue, WORKQUEUE_THREADS, WORKQUEUE_SHARE),
		     0));
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

void begin(const char *lines)
{
	control_write(control, 42, lines, strlen(lines), answer_expect(&answer));
}

void flush(void)
{
	control_flush(control, answer_expect(&answer));
}

void expect_answer(int error, size_t length)
{
	cr_expect(eq(int, answer_get(&answer), error));
	if (!error)
		cr_expect(eq(sz, answer.length, length));
}

void expect_write(const char *lines, int error, size_t length)
{
	begin(lines);
	expect_answer(error, length);
}

void expect_read(const char *expected)
{
	char bytes[2048];
	size_t length = 0, n;

	while ((n = control_read(control, bytes + length, 7)))
		length += n;
	bytes[length] = '\0';
	cr_expect(eq(str, bytes, (char *)expected));
}

void expect_ran(const char *expected)
{
	cr_expect(eq(str, ran, (char *)expected));
}

struct command *wait_for_line(void)
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
