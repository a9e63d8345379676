/* SPDX-License-Identifier: MIT */
/*
 * The end of a worker's process concerns the allocations in it, however many others there
 * are. The linker puts a counter in front of the function that goes along all
 * allocations.
 */
#include "process/checkpoint.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>
#include <unistd.h>

#include "base/handle_table.h"
#include "control/verb.h"
#include "memops/give_back.h"
#include "memory/block.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/registry.h"
#include "process/worker.h"
#include "unit/broker_help.h"

static struct broker *broker;
static struct owner *owner;
static unsigned int n_steps; /* along all allocations; atomic */

void *__real_handle_table_next(const struct handle_table *table, uint32_t *slot);
void *__wrap_handle_table_next(const struct handle_table *table, uint32_t *slot);

void *__wrap_handle_table_next(const struct handle_table *table, uint32_t *slot)
{
	if (broker && table == &broker->registry->allocations)
		__atomic_add_fetch(&n_steps, 1, __ATOMIC_RELAXED);
	return __real_handle_table_next(table, slot);
}

static void start(void)
{
	broker = broker_start("64M", NULL);
	for (int i = 0; i < 50; i++)
		cr_assert(
			eq(int, command_say(broker, "alloc", "h%d 16 kind=host", i), 0));
	cr_assert(eq(int, command_say(broker, "alloc", "d 4K kind=direct"), 0));
	cr_assert(eq(int, command_say(broker, "alloc", "m 4K kind=managed"), 0));
	owner = owner_find(broker->registry, nobody_special.uid);
}

static void stop(void)
{
	broker_end(broker);
}

TestSuite(checkpoint, .init = start, .fini = stop, .timeout = 60);

static void reset(void)
{
	struct answer answer;

	n_steps = 0;
	pthread_mutex_lock(&broker->registry->lock);
	cr_assert(checkpoint_begin(broker, owner->worker, worker_epoch(owner->worker),
				   "was reset", EIO, answer_expect(&answer)));
	pthread_mutex_unlock(&broker->registry->lock);
	cr_assert(eq(int, answer_get(&answer), 0));
}

Test(checkpoint, reset_looks_at_what_the_worker_has)
{
	reset();
	cr_expect(eq(uint, n_steps, 0));
	cr_expect(eq(int, allocation_state_of(broker, "d"), ALLOCATION_LOST));
	cr_expect(eq(int, allocation_state_of(broker, "m"), ALLOCATION_LIVE));
}

Test(checkpoint, memory_that_was_made_again_is_saved_again)
{
	struct token m = allocation_named(broker, "m");
	char byte = 'x';

	cr_assert(eq(long, data_write(broker, m, 7, &byte, 1), 1));
	reset();
	reset();
	cr_expect(eq(int, allocation_state_of(broker, "m"), ALLOCATION_LIVE));
	cr_expect(eq(long, data_read(broker, m, 7, &byte, 1), 1));
	cr_expect(eq(chr, byte, 'x'));
}

/* Many looks at a time, as after many frees, are no time without progress. */
Test(checkpoint, a_process_that_saves_nothing_is_killed_after_a_time)
{
	const pid_t process = worker_pid(owner->worker);
	const uint32_t epoch = worker_epoch(owner->worker);
	struct answer answer;

	worker_signal(owner->worker, SIGSTOP);
	pthread_mutex_lock(&broker->registry->lock);
	cr_assert(checkpoint_begin(broker, owner->worker, epoch, "was reset", EIO,
				   answer_expect(&answer)));
	for (int i = 0; i < 10; i++)
		cr_expect(checkpoint_hurry_stuck(owner->worker, epoch, 2000));
	pthread_mutex_unlock(&broker->registry->lock);
	cr_expect(eq(int, kill(process, 0), 0));
	usleep(300000);
	pthread_mutex_lock(&broker->registry->lock);
	cr_expect(not(checkpoint_hurry_stuck(owner->worker, epoch, 200)));
	pthread_mutex_unlock(&broker->registry->lock);
	cr_assert(eq(int, answer_get(&answer), 0));
	cr_expect(eq(int, allocation_state_of(broker, "m"), ALLOCATION_LOST));
}

static bool never(void *userdata)
{
	(void)userdata;
	return false;
}

static void note_withdrawn(void *userdata)
{
	__atomic_store_n((bool *)userdata, true, __ATOMIC_RELEASE);
}

/* Else a kernel in it goes on with memory whose owner writes for others. */
Test(checkpoint, memory_is_withdrawn_when_a_process_given_up_at_that_moment_has_ended)
{
	const pid_t process = worker_pid(owner->worker);
	const uint32_t epoch = worker_epoch(owner->worker);
	const struct token token = allocation_named(broker, "h0");
	bool is_withdrawn = false;
	struct answer answer;
	struct block *block;

	worker_signal(owner->worker, SIGSTOP);
	pthread_mutex_lock(&broker->registry->lock);
	block = allocation_get(broker->registry, token.slot, token.generation)->block;
	block_guest(broker->memory, block, owner->worker, &owner->worker->n_guests)
		->epoch = epoch;
	cr_assert(checkpoint_begin(broker, owner->worker, epoch, "was reset", EIO,
				   answer_expect(&answer)));
	pthread_mutex_unlock(&broker->registry->lock);
	block_withdraw(broker, block, owner->worker,
		       (struct give_back_tell){ .may_take_longer = never,
						.done = note_withdrawn,
						.userdata = &is_withdrawn });
	cr_expect(not(__atomic_load_n(&is_withdrawn, __ATOMIC_ACQUIRE)));
	kill(process, SIGKILL);
	cr_assert(eq(int, answer_get(&answer), 0));
	while (!__atomic_load_n(&is_withdrawn, __ATOMIC_ACQUIRE))
		usleep(1000);
}

static void note_end(struct until_end *until)
{
	(void)until;
}

/* Else freed memory that the process has still counts for nobody. */
Test(checkpoint, a_process_without_a_next_one_is_waited_for)
{
	static struct until_end until = { .ended = note_end };
	struct answer answer;
	uint32_t epoch = worker_epoch(owner->worker);

	pthread_mutex_lock(&broker->registry->lock);
	cr_assert(checkpoint_begin(broker, owner->worker, epoch, "was reset", EIO,
				   answer_expect(&answer)));
	cr_expect(eq(uint, worker_epoch(owner->worker), 0));
	cr_expect(checkpoint_wait_until_end(owner->worker, epoch, &until));
	pthread_mutex_unlock(&broker->registry->lock);
	cr_assert(eq(int, answer_get(&answer), 0));
}

Test(checkpoint, end_of_a_process_looks_at_what_the_worker_has)
{
	n_steps = 0;
	kill(worker_pid(owner->worker), SIGKILL);
	while (allocation_state_of(broker, "d") != ALLOCATION_LOST ||
	       allocation_state_of(broker, "m") != ALLOCATION_LOST)
		usleep(1000);
	cr_expect(eq(uint, n_steps, 0));
}
