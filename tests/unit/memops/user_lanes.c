/* SPDX-License-Identifier: MIT */
/*
 * A user may put millions of locks (fcntl(2)) on a file that a lease gave, and each close
 * looks at all of them. So neither the thread that asks nor the housekeeper opens and
 * closes such a file. The linker puts these functions in front of those that do.
 */
#include "api/attribute.h"
#include "memops/lease_file.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/registry.h"
#include "process/processes.h"
#include "process/worker.h"
#include "unit/broker_help.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(user_lanes, .timeout = 60);

static struct broker *broker; /* atomic */
static pthread_t asker;
static unsigned int n_asked, n_wrong; /* atomic */

bool __real_host_file_is_open(int fd);
bool __wrap_host_file_is_open(int fd);
bool __real_host_file_is_open_for_writing(int fd);
bool __wrap_host_file_is_open_for_writing(int fd);

static void note_thread(void)
{
	__atomic_add_fetch(&n_asked, 1, __ATOMIC_RELAXED);
	if (pthread_equal(pthread_self(), asker) ||
	    pthread_equal(pthread_self(), broker->processes->housekeeper))
		__atomic_add_fetch(&n_wrong, 1, __ATOMIC_RELAXED);
}

bool __wrap_host_file_is_open(int fd)
{
	note_thread();
	return __real_host_file_is_open(fd);
}

bool __wrap_host_file_is_open_for_writing(int fd)
{
	note_thread();
	return __real_host_file_is_open_for_writing(fd);
}

static void ignore(void *userdata)
{
	(void)userdata;
}

/*
 * A program opens a lease of the allocation, closes the lease and ends. Returns: the
 * descriptor of the memory, which such a program may have sent to another.
 */
static int take_file(struct token token)
{
	const struct lease_name name = { 1, 1 };
	const struct allocation *allocation;
	char ticket[128] = "";
	struct answer text;
	struct lease *lease;
	struct caller program = nobody_special;
	bool ends = true;
	int fd;

	program.pid = fork();
	if (program.pid == 0)
		_exit(pause());
	cr_assert(eq(int,
		     broker_lease_open(broker, token, &program, true, name, ignore, NULL,
				       &lease),
		     0));
	broker_lease_read(lease, answer_expect(&text));
	cr_assert(eq(int, answer_get(&text), 0));
	text.bytes[MIN(text.length, sizeof(text.bytes) - 1)] = '\0';
	cr_assert(eq(int, sscanf(strstr(text.bytes, "ticket "), "ticket %127s", ticket),
		     1));
	fd = broker_redeem(broker, ticket, strlen(ticket), program.uid);
	cr_assert(ge(int, fd, 0));
	broker_lease_close(lease);
	kill(program.pid, SIGKILL);
	waitpid(program.pid, NULL, 0);
	while (ends) {
		usleep(1000);
		pthread_mutex_lock(&broker->registry->lock);
		allocation =
			allocation_get(broker->registry, token.slot, token.generation);
		ends = allocation->rare->n_writers_departing;
		pthread_mutex_unlock(&broker->registry->lock);
	}
	return fd;
}

static const struct attribute *attribute_of(const char *name)
{
	const struct attribute_table *table = &attribute_tables[OBJECT_ALLOCATION];
	const struct attribute *row = table->rows;

	while (strcmp(row->name, name) != 0)
		row++;
	return row;
}

/* Returns: the error. */
static int seal(struct token token)
{
	struct answer answer;

	attribute_of("sealed")->store(broker, token, &nobody_special, "1\n", 2,
				      answer_expect(&answer));
	return answer_get(&answer);
}

static void expect_asked(void)
{
	cr_expect(gt(uint, __atomic_exchange_n(&n_asked, 0, __ATOMIC_RELAXED), 0));
	cr_expect(eq(uint, __atomic_load_n(&n_wrong, __ATOMIC_RELAXED), 0));
}

static void start(void)
{
	asker = pthread_self();
	broker = broker_start("64M", NULL);
	cr_assert(eq(int, command_say(broker, "alloc", "x 4K kind=host"), 0));
}

static void stop(void)
{
	broker_end(broker);
}

Test(user_lanes, seals_ask_there, .init = start, .fini = stop)
{
	struct token x = allocation_named(broker, "x");
	int fd = take_file(x);

	cr_expect(eq(int, seal(x), -EBUSY));
	expect_asked();
	cr_expect(eq(int, command_say(broker, "publish", "x y"), -EBUSY));
	expect_asked();
	close(fd);
	cr_expect(eq(int, command_say(broker, "publish", "x y"), 0));
	expect_asked();
}

Test(user_lanes, values_but_one_are_refused, .init = start, .fini = stop)
{
	struct token x = allocation_named(broker, "x");
	struct answer answer;
	int fd = take_file(x);

	attribute_of("sealed")->store(broker, x, &nobody_special, "10", 2,
				      answer_expect(&answer));
	cr_expect(eq(int, answer_get(&answer), -EINVAL));
	cr_expect(eq(uint, n_asked, 0));
	close(fd);
}

Test(user_lanes, freed_memory_is_looked_at_there, .init = start, .fini = stop)
{
	int fd = take_file(allocation_named(broker, "x"));

	cr_assert(eq(int,
		     broker_remove(broker, OBJECT_ALLOCATION, TOKEN_NONE, "x",
				   &nobody_special),
		     0));
	/* Once after the last use, and again in the housekeeper's rounds. */
	while (__atomic_load_n(&n_asked, __ATOMIC_RELAXED) < 3)
		usleep(1000);
	expect_asked();
	close(fd);
}

/* Kills the worker of nobody_special, and waits for its end. */
static void kill_worker(void)
{
	const struct owner *owner;
	struct worker *worker;

	pthread_mutex_lock(&broker->registry->lock);
	owner = owner_find(broker->registry, nobody_special.uid);
	worker = owner->worker;
	pthread_mutex_unlock(&broker->registry->lock);
	kill(worker_pid(worker), SIGKILL);
	while (worker_epoch(worker))
		usleep(1000);
}

/* Else a user takes descriptors and threads of the broker, four for each. */
Test(user_lanes, few_workers_have_ended_and_are_not_closed, .init = start, .fini = stop)
{
	int n_ended = 0;

	closers_hold(broker);
	while (n_ended < 100 && command_say(broker, "alloc", "w 4K kind=async") == 0) {
		kill_worker();
		cr_assert(eq(int, command_say(broker, "free", "w"), 0));
		n_ended++;
	}
	cr_expect(le(int, n_ended, 10));
	cr_expect(eq(int, command_say(broker, "alloc", "w 4K kind=async"), -EBUSY));
	closers_let_go();
	while (command_say(broker, "alloc", "w 4K kind=async") != 0)
		usleep(1000);
	cr_assert(eq(int, command_say(broker, "free", "w"), 0));
}

/*
 * Anybody may put locks on a process. So a process that opens leases again and again has
 * one descriptor to be closed, and no line of its user waits for the close.
 */
Test(user_lanes, closes_of_processes_keep_no_line, .init = start, .fini = stop)
{
	const struct token x = allocation_named(broker, "x");
	const struct lease_name name = { 1, 1 };
	struct caller program = nobody_special;
	struct lease *lease;

	program.pid = getpid();
	closers_hold(broker);
	for (int i = 0; i < 100; i++) {
		cr_assert(eq(int,
			     broker_lease_open(broker, x, &program, true, name, ignore,
					       NULL, &lease),
			     0));
		broker_lease_close(lease);
	}
	cr_expect(eq(uint, n_own_pidfds(), 1));
	cr_expect(eq(int, seal(x), 0));
	closers_let_go();
	broker_settle(broker);
	cr_expect(eq(uint, n_own_pidfds(), 0));
}
