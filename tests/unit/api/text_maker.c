/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <semaphore.h>
#include <string.h>

#include "api/attribute.h"
#include "base/shared_text.h"
#include "base/workqueue.h"
#include "memops/lease_file.h"
#include "model/registry.h"
#include "model/shares.h"
#include "unit/broker_help.h"

TestSuite(text_maker, .timeout = 20);

/* A reader who keeps the text of the answer. */
struct reader {
	struct completion wait;
	sem_t answered;
	int error;
	struct shared_text *text; /* NULL: none */
	sem_t *stay;		  /* the answer returns after this; NULL: at once */
};

static void reader_done(struct completion *wait, int error, const void *bytes,
			size_t length)
{
	struct reader *reader = container_of(wait, struct reader, wait);
	sem_t *stay = reader->stay;

	reader->error = error;
	if (!error) {
		cr_assert(bytes == text_string(&wait->shared->text));
		cr_assert(eq(sz, length, wait->shared->text.length));
		reader->text = shared_text_ref(wait->shared);
	}
	sem_post(&reader->answered);
	if (stay)
		sem_wait(stay);
}

/* The row of the table with a text of its own. */
static const struct attribute *text_named(enum object_type type, const char *name)
{
	const struct attribute *row = attribute_tables[type].rows;

	while (strcmp(row->name, name) || !row->print)
		row++;
	return row;
}

static void ask_for(struct broker *broker, struct token token,
		    const struct attribute *attribute, struct reader *reader, sem_t *stay)
{
	*reader = (struct reader){ .wait.done = reader_done, .stay = stay };
	sem_init(&reader->answered, 0, 0);
	broker_ask(broker, token, attribute, &nobody_special, &reader->wait);
}

static void ask(struct broker *broker, struct reader *reader, sem_t *stay)
{
	ask_for(broker, TOKEN_NONE, text_named(OBJECT_BROKER, "metrics"), reader, stay);
}

static void ask_leases(struct broker *broker, struct reader *reader, sem_t *stay)
{
	ask_for(broker, TOKEN_NONE, text_named(OBJECT_BROKER, "leases"), reader, stay);
}

static bool is_answered(struct reader *reader)
{
	return sem_trywait(&reader->answered) == 0;
}

static void expect_text(struct reader *reader)
{
	sem_wait(&reader->answered);
	cr_assert(eq(int, reader->error, 0));
	cr_assert(reader->text != NULL);
}

static bool has(const struct reader *reader, const char *sample)
{
	return strstr(text_string(&reader->text->text), sample);
}

static void forget(struct reader *reader)
{
	reader->text = shared_text_unref(reader->text);
}

/* While the first has the answer in hand no other text is begun. */
Test(text_maker, readers_who_ask_meanwhile_share_the_next_text)
{
	enum { N = 50 };
	struct broker *broker = broker_start("64M", NULL);
	struct reader first, others[N];
	sem_t stay;

	sem_init(&stay, 0, 0);
	ask(broker, &first, &stay);
	expect_text(&first);
	for (int i = 0; i < N; i++)
		ask(broker, &others[i], NULL);
	for (int i = 0; i < N; i++)
		cr_assert(not(is_answered(&others[i])));
	sem_post(&stay);
	for (int i = 0; i < N; i++) {
		expect_text(&others[i]);
		cr_assert(others[i].text == others[0].text);
	}
	cr_assert(first.text != others[0].text);
	forget(&first);
	for (int i = 0; i < N; i++)
		forget(&others[i]);
	broker_end(broker);
}

Test(text_maker, a_reader_sees_what_was_done_before)
{
	struct broker *broker = broker_start("64M", NULL);
	struct reader first, second;
	sem_t stay;

	sem_init(&stay, 0, 0);
	ask(broker, &first, &stay);
	expect_text(&first);
	cr_assert(eq(int, command_say(broker, "alloc", "x 4096"), 0));
	ask(broker, &second, NULL);
	sem_post(&stay);
	expect_text(&second);
	cr_assert(not(has(&first, "\ngpumem_held_bytes{")));
	cr_assert(has(&second, "\ngpumem_held_bytes{"));
	forget(&first);
	forget(&second);
	broker_end(broker);
}

Test(text_maker, a_signal_ends_the_wait_of_one_reader)
{
	struct broker *broker = broker_start("64M", NULL);
	struct reader first, second, third;
	sem_t stay;

	sem_init(&stay, 0, 0);
	ask(broker, &first, &stay);
	expect_text(&first);
	ask(broker, &second, NULL);
	ask(broker, &third, NULL);
	broker_interrupt(broker, &second.wait);
	sem_wait(&second.answered);
	cr_assert(eq(int, second.error, -EINTR));
	sem_post(&stay);
	expect_text(&third);
	forget(&first);
	forget(&third);
	broker_end(broker);
	cr_assert(not(is_answered(&second)));
}

Test(text_maker, readers_that_wait_have_a_share)
{
	enum { N = 1100 };
	static struct reader readers[N];
	struct broker *broker = broker_start("64M", NULL);
	unsigned int n_refused = 0;
	struct reader first;
	sem_t stay;

	sem_init(&stay, 0, 0);
	ask(broker, &first, &stay);
	expect_text(&first);
	for (int i = 0; i < N; i++)
		ask(broker, &readers[i], NULL);
	for (int i = 0; i < N; i++)
		n_refused += readers[i].error == -EBUSY;
	sem_post(&stay);
	cr_assert(eq(uint, n_refused, N - 1024));
	for (int i = 0; i < N - (int)n_refused; i++) {
		expect_text(&readers[i]);
		forget(&readers[i]);
	}
	forget(&first);
	broker_end(broker);
}

static void ignore(void *userdata)
{
	(void)userdata;
}

static struct lease *lease_of(struct broker *broker, const char *name)
{
	const struct lease_name place = { 1, 1 };
	struct lease *lease;

	cr_assert(
		eq(int,
		   broker_lease_open(broker, allocation_named(broker, name),
				     &nobody_special, false, place, ignore, NULL, &lease),
		   0));
	return lease;
}

/* Programs look for their own lease. */
Test(text_maker, a_lease_that_was_made_while_a_list_was_made_is_in_the_next)
{
	struct broker *broker = broker_start("64M", NULL);
	struct reader first, second, third;
	struct lease *lease;
	sem_t stay;

	sem_init(&stay, 0, 0);
	cr_assert(eq(int, command_say(broker, "alloc", "x 4K"), 0));
	ask_leases(broker, &first, &stay);
	expect_text(&first);
	ask_leases(broker, &second, NULL);
	lease = lease_of(broker, "x");
	ask_leases(broker, &third, NULL);
	sem_post(&stay);
	expect_text(&second);
	expect_text(&third);
	cr_assert(not(has(&first, "x ")));
	cr_assert(has(&third, "x "));
	cr_assert(second.text == third.text);
	forget(&first);
	forget(&second);
	forget(&third);
	broker_lease_close(lease);
	broker_end(broker);
}

Test(text_maker, each_allocation_has_a_list_of_its_own)
{
	const struct attribute *leases = text_named(OBJECT_ALLOCATION, "leases");
	struct broker *broker = broker_start("64M", NULL);
	struct reader first, all, of_x, of_y;
	struct lease *lease;
	sem_t stay;

	sem_init(&stay, 0, 0);
	cr_assert(eq(int, command_say(broker, "alloc", "x 4K"), 0));
	cr_assert(eq(int, command_say(broker, "alloc", "y 4K"), 0));
	lease = lease_of(broker, "y");
	ask(broker, &first, &stay);
	expect_text(&first);
	ask_leases(broker, &all, NULL);
	ask_for(broker, allocation_named(broker, "x"), leases, &of_x, NULL);
	ask_for(broker, allocation_named(broker, "y"), leases, &of_y, NULL);
	sem_post(&stay);
	expect_text(&all);
	expect_text(&of_x);
	expect_text(&of_y);
	cr_assert(has(&all, "y "));
	cr_assert(eq(sz, of_x.text->text.length, 0));
	cr_assert(has(&of_y, " r "));
	forget(&first);
	forget(&all);
	forget(&of_x);
	forget(&of_y);
	broker_lease_close(lease);
	broker_end(broker);
}

/* Others in the mount keep a descriptor of a file whose allocation is freed. */
Test(text_maker, a_list_of_freed_memory_is_stale)
{
	const struct attribute *leases = text_named(OBJECT_ALLOCATION, "leases");
	struct broker *broker = broker_start("64M", NULL);
	struct reader reader;
	struct token x;

	cr_assert(eq(int, command_say(broker, "alloc", "x 4K"), 0));
	x = allocation_named(broker, "x");
	cr_assert(eq(int, command_say(broker, "free", "x"), 0));
	ask_for(broker, x, leases, &reader, NULL);
	sem_wait(&reader.answered);
	cr_assert(eq(int, reader.error, -ESTALE));
	broker_end(broker);
}

static sem_t stuck, go;

static void hang(struct task *task)
{
	(void)task;
	sem_post(&stuck);
	sem_wait(&go);
}

/* As when a driver does not return: the file is for finding out why. */
Test(text_maker, a_text_needs_no_thread_of_the_work_queue)
{
	struct broker *broker = broker_start("64M", NULL);
	struct task tasks[WORKQUEUE_THREADS] = { 0 };
	struct reader reader;

	sem_init(&stuck, 0, 0);
	sem_init(&go, 0, 0);
	for (unsigned int i = 0; i < WORKQUEUE_THREADS; i++) {
		tasks[i].run = hang;
		workqueue_add(broker->workqueue, i, &tasks[i]);
	}
	for (unsigned int i = 0; i < WORKQUEUE_THREADS; i++)
		sem_wait(&stuck);
	ask(broker, &reader, NULL);
	expect_text(&reader);
	for (unsigned int i = 0; i < WORKQUEUE_THREADS; i++)
		sem_post(&go);
	forget(&reader);
	broker_end(broker);
}
