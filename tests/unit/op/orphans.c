/* SPDX-License-Identifier: MIT */
/*
 * Operations wait for the processes of a broker that has died, where these may still
 * write the memory.
 */
#include "process/orphans.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memops/data.h"
#include "model/registry.h"
#include "op/op.h"
#include "record/types.h"
#include "unit/broker_help.h"

#define OWNER 1000u /* nobody_special's uid */

static struct broker *broker;
static pid_t child;

static void start(void)
{
	broker = broker_start("64M", NULL);
	child = fork();
	cr_assert(ge(int, child, 0));
	if (child == 0) {
		pause();
		_exit(0);
	}
	cr_assert(eq(int, command_say(broker, "alloc", "x 4096 kind=host\ny 4096\n"), 0));
}

static void stop(void)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	broker_end(broker);
}

TestSuite(orphans, .init = start, .fini = stop, .timeout = 60);

static struct process_record of_child(void)
{
	return (struct process_record){
		.pid = (uint32_t)child,
		.owner = OWNER,
		.busy = 1,
	};
}

static struct orphan *orphan_of(struct process_record record)
{
	struct orphan *orphan;

	pthread_mutex_lock(&broker->registry->lock);
	orphan = orphan_new(broker, 0, &record, pidfd_open(child, 0));
	cr_assert(ne(ptr, orphan, NULL));
	pthread_mutex_unlock(&broker->registry->lock);
	return orphan;
}

static void end(struct orphan *orphan)
{
	struct work *parked;

	pthread_mutex_lock(&broker->registry->lock);
	parked = orphan_free(orphan);
	pthread_mutex_unlock(&broker->registry->lock);
	op_resume(parked);
}

static void *write_word(void *name)
{
	return (void *)data_write(broker, allocation_named(broker, name), 0, "word", 4);
}

static void is_kept_back(const char *name, struct orphan *orphan)
{
	pthread_t thread;
	void *written;

	cr_assert(eq(int, pthread_create(&thread, NULL, write_word, (void *)name), 0));
	usleep(200000);
	cr_expect(eq(int, pthread_tryjoin_np(thread, &written), EBUSY));
	end(orphan);
	pthread_join(thread, &written);
	cr_expect(eq(long, (long)written, 4));
}

Test(orphans, host_memory_of_the_owner_waits)
{
	is_kept_back("x", orphan_of(of_child()));
}

Test(orphans, device_memory_of_the_owner_waits)
{
	is_kept_back("y", orphan_of(of_child()));
}

Test(orphans, all_memory_waits_for_the_mover)
{
	struct process_record record = of_child();

	record.owner = 0;
	record.mover = 1;
	is_kept_back("x", orphan_of(record));
}

Test(orphans, memory_that_another_user_may_write_waits_for_that_user)
{
	struct process_record record = of_child();
	struct orphan *orphan;

	record.owner = OWNER + 1;
	cr_assert(eq(int, command_say(broker, "alloc", "all 4096 mode=666\n"), 0));
	orphan = orphan_of(record);
	cr_expect(eq(long, (long)write_word((char *)"x"), 4));
	is_kept_back("all", orphan);
}

/* The process has it mapped, whatever the mode is now. */
Test(orphans, memory_that_was_shut_meanwhile_waits)
{
	struct process_record record = of_child();
	struct orphan *orphan;

	record.owner = OWNER + 1;
	cr_assert(eq(int, command_say(broker, "alloc", "all 4096 mode=666\n"), 0));
	orphan = orphan_of(record);
	cr_assert(eq(int,
		     broker_change(broker, OBJECT_ALLOCATION,
				   allocation_named(broker, "all"), &nobody_special, 0600,
				   (uid_t)-1, (gid_t)-1),
		     0));
	is_kept_back("all", orphan);
}

Test(orphans, memory_that_was_made_later_does_not_wait)
{
	struct orphan *orphan = orphan_of(of_child());

	cr_assert(eq(int, command_say(broker, "alloc", "new 4096\n"), 0));
	cr_expect(eq(long, (long)write_word((char *)"new"), 4));
	end(orphan);
}

Test(orphans, who_had_nothing_to_do_keeps_no_memory_back)
{
	struct process_record record = of_child();
	struct orphan *orphan;

	record.busy = 0;
	orphan = orphan_of(record);
	cr_expect(eq(long, (long)write_word((char *)"x"), 4));
	end(orphan);
}

static void *alloc_too_much(void *unused)
{
	(void)unused;
	return (void *)(long)command_say(broker, "alloc", "more 40M\n");
}

/* The device has 64 MiB. */
Test(orphans, an_allocation_waits_for_memory_that_may_come)
{
	struct process_record record = of_child();
	struct orphan *orphan;
	pthread_t thread;
	void *error;

	record.busy = 0;
	cr_assert(eq(int, command_say(broker, "alloc", "large 40M\n"), 0));
	orphan = orphan_of(record);
	cr_assert(eq(int, pthread_create(&thread, NULL, alloc_too_much, NULL), 0));
	usleep(200000);
	cr_expect(eq(int, pthread_tryjoin_np(thread, &error), EBUSY));
	end(orphan);
	orphans_retry(broker);
	pthread_join(thread, &error);
	cr_expect(eq(long, (long)error, -ENOMEM));
}
