/* SPDX-License-Identifier: MIT */
/*
 * The steps of making and freeing memory: requests to workers, and tasks of the work
 * queue. Each is a switch to another process or thread and back, which is most of the
 * time that a small allocation takes. The linker sends each channel_send() and
 * workqueue_add() of this program through a note, so that one step more is seen without a
 * clock.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>

#include "base/text.h"
#include "base/workqueue.h"
#include "channel/channel.h"
#include "channel/request.h"
#include "protocol/wire.h"
#include "unit/broker_help.h"

TestSuite(steps, .timeout = 60);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the two below */
static bool noting;
static struct text steps = TEXT_INIT;

void __real_channel_send(struct channel *channel, struct request *request);
void __wrap_channel_send(struct channel *channel, struct request *request);
void __real_workqueue_add(struct workqueue *workqueue, uint64_t whose, struct task *task);
void __wrap_workqueue_add(struct workqueue *workqueue, uint64_t whose, struct task *task);

static void note(const char *step)
{
	pthread_mutex_lock(&lock);
	if (noting)
		text_printf(&steps, "%s%s", steps.length ? " " : "", step);
	pthread_mutex_unlock(&lock);
}

static void note_from_now_on(bool on)
{
	pthread_mutex_lock(&lock);
	noting = on;
	text_clear(&steps);
	pthread_mutex_unlock(&lock);
}

void __wrap_channel_send(struct channel *channel, struct request *request)
{
	note(wire_op_name(request->record.op));
	__real_channel_send(channel, request);
}

void __wrap_workqueue_add(struct workqueue *workqueue, uint64_t whose, struct task *task)
{
	note("task");
	__real_workqueue_add(workqueue, whose, task);
}

/* The steps of one line, with those that come after its answer. */
static void expect_steps(struct broker *broker, const char *verb, const char *line,
			 const char *expected)
{
	broker_settle(broker);
	note_from_now_on(true);
	cr_assert(eq(int, command_say(broker, verb, "%s", line), 0));
	broker_settle(broker);
	cr_expect_str_eq(text_string(&steps), expected, "%s %s: steps '%s'", verb, line,
			 text_string(&steps));
	note_from_now_on(false);
}

/* The first allocation may start a worker or make a slab, and stays. */
static void expect_both(const char *memory, const char *alloc, const char *free)
{
	struct broker *broker = broker_start("64M", NULL);
	char line[64];

	cr_assert(eq(int, command_say(broker, "alloc", "before %s", memory), 0));
	cr_assert(eq(int, command_say(broker, "alloc", "x %s", memory), 0));
	cr_assert(eq(int, command_say(broker, "free", "x"), 0));
	snprintf(line, sizeof(line), "x %s", memory);
	for (int i = 0; i < 3; i++) {
		expect_steps(broker, "alloc", line, alloc);
		expect_steps(broker, "free", "x", free);
	}
	broker_end(broker);
}

Test(steps, direct)
{
	expect_both("4K kind=direct", "alloc", "free");
	expect_both("2M kind=direct", "alloc", "free");
}

Test(steps, async)
{
	expect_both("4K kind=async", "alloc", "free");
	expect_both("2M kind=async", "alloc", "free");
}

Test(steps, managed)
{
	expect_both("4K kind=managed", "alloc", "free");
}

/* A small one is a cell of a slab. */
Test(steps, device)
{
	expect_both("4K", "", "");
	expect_both("2M", "task", "task");
}

Test(steps, host)
{
	expect_both("4K kind=host", "", "");
}
