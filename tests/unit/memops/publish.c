/* SPDX-License-Identifier: MIT */
/*
 * A line of publish names hundreds of allocations that programs had open. The linker puts
 * a function in front of the question to the kernel.
 */
#include "memops/publish.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/attribute.h"
#include "base/refusal.h"
#include "memops/data.h"
#include "memory/host_file.h"
#include "model/allocation.h"
#include "model/registry.h"
#include "unit/broker_help.h"

#define N 100

TestSuite(publish, .timeout = 60);

static struct broker *watched;
static struct token tokens[N];
static unsigned int n_asked, n_asked_under_lock;
/* Allocations that are opened during the last question, the last of the line first. */
static unsigned int n_opened;

bool __real_host_file_is_open_for_writing(int fd);
bool __wrap_host_file_is_open_for_writing(int fd);

static void open_and_close(struct token token)
{
	cr_assert(eq(int, broker_note_opening(watched, token, nobody_special.uid), 0));
	broker_note_opened(watched, token);
}

bool __wrap_host_file_is_open_for_writing(int fd)
{
	/* The C library notes the thread that has a lock. */
	bool is_held = __atomic_load_n(&watched->registry->lock.__data.__owner,
				       __ATOMIC_RELAXED) == gettid();

	n_asked++;
	n_asked_under_lock += is_held;
	for (unsigned int i = 0; n_asked == N && !is_held && i < n_opened; i++)
		open_and_close(tokens[N - 1 - i]);
	return __real_host_file_is_open_for_writing(fd);
}

/* N allocations that a program had open for writing. */
static void set_up(void)
{
	watched = broker_start("64M", NULL);
	for (int i = 0; i < N; i++) {
		char name[16];

		snprintf(name, sizeof(name), "x%d", i);
		cr_assert(eq(int, command_say(watched, "alloc", "%s 4K kind=host", name),
			     0));
		tokens[i] = allocation_named(watched, name);
		open_and_close(tokens[i]);
	}
	n_asked = n_asked_under_lock = n_opened = 0;
}

static void tear_down(void)
{
	broker_end(watched);
}

/* Publishes all of them, the first under another name. */
static int publish_all(struct refusal *refusal)
{
	struct publication publications[N];
	char names[N][16];

	for (int i = 0; i < N; i++) {
		snprintf(names[i], sizeof(names[i]), "x%d", i);
		publications[i] = (struct publication){ names[i], i ? names[i] : "y" };
	}
	return publish(watched, &nobody_special, publications, N, refusal);
}

Test(publish, asks_the_kernel_without_the_lock, .init = set_up, .fini = tear_down)
{
	struct refusal refusal;

	cr_expect(eq(int, publish_all(&refusal), 0), "%s", refusal.sentence);
	cr_expect(eq(uint, n_asked, N));
	cr_expect(eq(uint, n_asked_under_lock, 0));
}

/* Closing a file may take the kernel long, if users have put locks on it. */
Test(publish, is_refused_when_one_was_opened_meanwhile, .init = set_up, .fini = tear_down)
{
	struct refusal refusal;

	n_opened = 1;
	cr_expect(eq(int, publish_all(&refusal), -EBUSY));
	cr_expect(eq(uint, n_asked_under_lock, 0));
	n_opened = 0;
	cr_expect(eq(int, publish_all(&refusal), 0), "%s", refusal.sentence);
	cr_expect(eq(uint, n_asked_under_lock, 0));
}

static int store_sealed(const char *value)
{
	const struct attribute_table *table = &attribute_tables[OBJECT_ALLOCATION];
	const struct attribute *row = table->rows;
	struct answer answer;

	while (strcmp(row->name, "sealed"))
		row++;
	row->store(watched, tokens[0], &nobody_special, value, strlen(value),
		   answer_expect(&answer));
	return answer_get(&answer);
}

Test(publish, a_seal_asks_without_the_lock_too, .init = set_up, .fini = tear_down)
{
	cr_expect(eq(int, store_sealed("0"), 0));
	cr_expect(eq(uint, n_asked, 0));
	cr_expect(eq(int, store_sealed("1"), 0));
	cr_expect(eq(uint, n_asked, 1));
	cr_expect(eq(uint, n_asked_under_lock, 0));
	cr_expect(eq(int, store_sealed("0"), -EPERM));
}
