/* SPDX-License-Identifier: MIT */
/*
 * The process of a worker may end with very many allocations. Others have the lock in
 * between, and then find some of them not marked as lost yet. The linker puts these
 * functions in front of the lock's, and of the one that marks an allocation.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>
#include <unistd.h>

#include "control/verb.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/registry.h"
#include "process/checkpoint.h"
#include "process/worker.h"
#include "unit/broker_help.h"

#define N	    600
#define N_AT_A_TIME 260

static struct broker *broker, *watched; /* watched: atomic */
static struct owner *owner;
static unsigned int n_lost, most_held; /* registry.lock */
static void (*in_the_gap)(void);       /* called once; registry.lock */
static __thread unsigned int n_held;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
void __real_allocation_lose(struct registry *registry, struct allocation *allocation,
			    const char *why);
void __wrap_allocation_lose(struct registry *registry, struct allocation *allocation,
			    const char *why);
void __real_registry_let_others(struct registry *registry);
void __wrap_registry_let_others(struct registry *registry);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	const struct broker *now = __atomic_load_n(&watched, __ATOMIC_ACQUIRE);

	if (now && mutex == &now->registry->lock)
		n_held = 0;
	return __real_pthread_mutex_lock(mutex);
}

void __wrap_allocation_lose(struct registry *registry, struct allocation *allocation,
			    const char *why)
{
	n_lost++;
	most_held = MAX(most_held, ++n_held);
	__real_allocation_lose(registry, allocation, why);
}

void __wrap_registry_let_others(struct registry *registry)
{
	void (*gap)(void) = take_ptr(in_the_gap);

	__real_registry_let_others(registry);
	n_held = 0;
	if (!gap)
		return;
	pthread_mutex_unlock(&registry->lock);
	gap();
	pthread_mutex_lock(&registry->lock);
}

/* N allocations that are lost with the process, and `m` behind them, which is saved. */
static void start(void)
{
	broker = broker_start("64M", NULL);
	__atomic_store_n(&watched, broker, __ATOMIC_RELEASE);
	for (int i = 0; i < N; i++)
		cr_assert(eq(int, command_say(broker, "alloc", "d%d 4K kind=direct", i),
			     0));
	cr_assert(eq(int, command_say(broker, "alloc", "m 4K kind=managed"), 0));
	owner = owner_find(broker->registry, nobody_special.uid);
}

static void stop(void)
{
	broker_end(broker);
}

TestSuite(lose_many, .init = start, .fini = stop, .timeout = 60);

static void begin_reset(struct answer *answer)
{
	pthread_mutex_lock(&broker->registry->lock);
	cr_assert(checkpoint_begin(broker, owner->worker, worker_epoch(owner->worker),
				   "was reset", EIO, answer_expect(answer)));
	pthread_mutex_unlock(&broker->registry->lock);
}

static void reset(void)
{
	struct answer answer;

	begin_reset(&answer);
	cr_assert(eq(int, answer_get(&answer), 0));
}

static void die(void)
{
	bool all = false;

	kill(worker_pid(owner->worker), SIGKILL);
	while (!all) {
		usleep(1000);
		pthread_mutex_lock(&broker->registry->lock);
		all = !owner->in_worker;
		pthread_mutex_unlock(&broker->registry->lock);
	}
}

static void expect_all_lost(void)
{
	cr_expect(eq(int, allocation_state_of(broker, "d0"), ALLOCATION_LOST));
	cr_expect(eq(int, allocation_state_of(broker, "d599"), ALLOCATION_LOST));
	cr_expect(le(uint, most_held, N_AT_A_TIME));
}

Test(lose_many, others_have_the_lock_at_a_reset)
{
	reset();
	expect_all_lost();
	cr_expect(eq(uint, n_lost, N));
	cr_expect(eq(int, allocation_state_of(broker, "m"), ALLOCATION_LIVE));
}

Test(lose_many, others_have_the_lock_at_a_death)
{
	die();
	expect_all_lost();
	cr_expect(eq(uint, n_lost, N + 1));
	cr_expect(eq(int, allocation_state_of(broker, "m"), ALLOCATION_LOST));
}

/* ---- meanwhile ---- */

static unsigned int n_gaps;

/* Memory of the process that has ended is not taken for memory of the next. */
static void use_old_and_new(void)
{
	char byte = 'x';

	n_gaps++;
	cr_expect(eq(int, allocation_state_of(broker, "d599"), ALLOCATION_LIVE));
	cr_expect(eq(long,
		     data_read(broker, allocation_named(broker, "d599"), 0, &byte, 1),
		     -ESTALE));
	cr_assert(eq(int, command_say(broker, "alloc", "new 4K kind=direct"), 0));
	cr_expect(eq(int, command_say(broker, "copy", "new from=d599"), -ESTALE));
	cr_expect(eq(int, command_say(broker, "copy", "d599 from=new"), -ESTALE));
	/* The walk goes on behind what has gone. */
	for (int i = 200; i < 300; i++)
		cr_expect(eq(int, command_say(broker, "free", "d%d", i), 0));
}

Test(lose_many, death_keeps_old_and_new_apart)
{
	in_the_gap = use_old_and_new;
	kill(worker_pid(owner->worker), SIGKILL);
	while (allocation_state_of(broker, "d599") != ALLOCATION_LOST)
		usleep(1000);
	expect_all_lost();
	cr_expect(eq(uint, n_gaps, 1));
	cr_expect(eq(int, allocation_state_of(broker, "new"), ALLOCATION_LIVE));
}

Test(lose_many, reset_keeps_old_and_new_apart)
{
	in_the_gap = use_old_and_new;
	reset();
	expect_all_lost();
	cr_expect(eq(uint, n_gaps, 1));
	cr_expect(eq(int, allocation_state_of(broker, "new"), ALLOCATION_LIVE));
	cr_expect(eq(int, allocation_state_of(broker, "m"), ALLOCATION_LIVE));
}

static pthread_t writer;

static void *write_m(void *nothing)
{
	cr_expect(eq(long, data_write(broker, allocation_named(broker, "m"), 7, "y", 1),
		     1));
	return nothing;
}

/* Whoever uses memory that will be saved waits until it is made again. */
static void write_managed(void)
{
	struct token m = allocation_named(broker, "m");
	bool kept = false;

	n_gaps++;
	pthread_create(&writer, NULL, write_m, NULL);
	while (!kept) {
		usleep(1000);
		pthread_mutex_lock(&broker->registry->lock);
		kept = allocation_get(broker->registry, m.slot, m.generation)->restoring;
		pthread_mutex_unlock(&broker->registry->lock);
	}
}

Test(lose_many, managed_memory_is_kept_that_is_used_meanwhile)
{
	struct token m = allocation_named(broker, "m");
	char bytes[2] = "xx";

	cr_assert(eq(long, data_write(broker, m, 6, bytes, 2), 2));
	in_the_gap = write_managed;
	reset();
	pthread_join(writer, NULL);
	cr_expect(eq(uint, n_gaps, 1));
	cr_expect(eq(long, data_read(broker, m, 6, bytes, 2), 2));
	cr_expect(eq(chr, bytes[0], 'x'));
	cr_expect(eq(chr, bytes[1], 'y'));
}

static pid_t process;

/* The process dies, too, before the checkpoint has come to the end. */
static void kill_it(void)
{
	bool gone = false;

	n_gaps++;
	cr_assert(ne(ptr, broker->processes->checkpoints, NULL));
	kill(process, SIGKILL);
	while (!gone) {
		usleep(1000);
		pthread_mutex_lock(&broker->registry->lock);
		gone = !checkpoint_lives(owner->worker);
		pthread_mutex_unlock(&broker->registry->lock);
	}
}

Test(lose_many, process_that_dies_before_it_is_saved_loses_all)
{
	process = worker_pid(owner->worker);
	in_the_gap = kill_it;
	reset();
	expect_all_lost();
	cr_expect(eq(uint, n_gaps, 1));
	cr_expect(eq(uint, n_lost, N + 1));
	cr_expect(eq(int, allocation_state_of(broker, "m"), ALLOCATION_LOST));
}
