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
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memops/data.h"
#include "memory/block.h"
#include "model/allocation.h"
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

	cr_assert(eq(int, command_say(broker, "alloc", "new 4M\n"), 0));
	cr_expect(eq(long, (long)write_word((char *)"new"), 4));
	end(orphan);
}

static struct allocation *find(const char *name)
{
	struct token token = allocation_named(broker, name);

	return allocation_get(broker->registry, token.slot, token.generation);
}

/* The owner's worker had work on memory of that name, which was freed. */
static struct orphan *orphan_of_freed(const char *name)
{
	cr_assert(eq(int, command_say(broker, "free", "%s\n", name), 0));
	broker_settle(broker);
	return orphan_of(of_child());
}

/* Memory of a slab is not new memory. */
Test(orphans, a_cell_that_is_dealt_again_waits)
{
	struct orphan *orphan;
	uint64_t address;

	cr_assert(eq(int, command_say(broker, "alloc", "other 4096\n"), 0));
	address = find("y")->address;
	orphan = orphan_of_freed("y");
	cr_assert(eq(int, command_say(broker, "alloc", "new 4096\n"), 0));
	cr_assert(eq(u64, find("new")->address, address));
	is_kept_back("new", orphan);
}

static void *read_word(void *word)
{
	return (void *)data_read(broker, allocation_named(broker, "new"), 0, word, 4);
}

Test(orphans, a_cell_of_host_memory_is_zeroed_after_late_stores)
{
	struct orphan *orphan;
	struct block *block;
	pthread_t thread;
	uint64_t address;
	char word[4];
	void *n_read;

	cr_assert(eq(int, command_say(broker, "alloc", "old 64 kind=host\n"), 0));
	cr_assert(eq(int, command_say(broker, "alloc", "other 64 kind=host\n"), 0));
	block = find("old")->block;
	address = find("old")->address;
	orphan = orphan_of_freed("old");
	cr_assert(eq(int, command_say(broker, "alloc", "new 64 kind=host\n"), 0));
	cr_assert(eq(u64, find("new")->address, address));
	cr_assert(eq(int, pthread_create(&thread, NULL, read_word, word), 0));
	usleep(200000);
	cr_expect(eq(int, pthread_tryjoin_np(thread, &n_read), EBUSY));
	memcpy(block_bytes_at(block, address), "late", 4);
	end(orphan);
	pthread_join(thread, &n_read);
	cr_expect(eq(long, (long)n_read, 4));
	cr_expect(eq(int, memcmp(word, "\0\0\0\0", sizeof(word)), 0));
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
