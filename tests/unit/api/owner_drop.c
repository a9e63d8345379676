/* SPDX-License-Identifier: MIT */
/*
 * The worker of an owner who is dropped leaves the memory of others, however much there
 * is. The linker puts these functions in front of the lock's, of the one that goes along
 * all allocations, and of the housekeeper's, which would drop the owners before the test
 * does.
 */
#include "api/owner_drop.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>

#include "base/handle_table.h"
#include "memory/block.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/registry.h"
#include "process/worker.h"
#include "unit/broker_help.h"

#define N	    1200
#define N_AT_A_TIME 520
#define FIRST	    2001
#define LAST	    2003

static struct broker *watched;
static __thread bool counts;
static unsigned int n_steps, n_steps_held, most_held;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
void *__real_handle_table_next(const struct handle_table *table, uint32_t *slot);
void *__wrap_handle_table_next(const struct handle_table *table, uint32_t *slot);

void __real_owners_drop(struct broker *broker);
void __wrap_owners_drop(struct broker *broker);

void __wrap_owners_drop(struct broker *broker)
{
	if (counts)
		__real_owners_drop(broker);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	if (counts && mutex == &watched->registry->lock)
		n_steps_held = 0;
	return __real_pthread_mutex_lock(mutex);
}

void *__wrap_handle_table_next(const struct handle_table *table, uint32_t *slot)
{
	if (counts && table == &watched->registry->allocations) {
		n_steps++;
		most_held = MAX(most_held, ++n_steps_held);
	}
	return __real_handle_table_next(table, slot);
}

static struct block *block_of(const char *name)
{
	struct token token = allocation_named(watched, name);

	return allocation_get(watched->registry, token.slot, token.generation)->block;
}

/* Users who came long ago, whose workers have had memory of another user mapped. */
static void guests_come(void)
{
	struct block *block = block_of("x0");
	struct worker *worker;
	struct owner *owner;

	pthread_mutex_lock(&watched->registry->lock);
	for (uid_t uid = FIRST; uid <= LAST; uid++) {
		owner = owner_get(watched->registry, uid, uid);
		worker = worker_of(watched, owner);
		cr_assert(block_guest(watched->memory, block, worker,
				      &worker->n_guests) != NULL);
		owner->used_ms = 0;
	}
	pthread_mutex_unlock(&watched->registry->lock);
}

Test(owner_drop, others_get_the_lock_while_workers_leave_memory, .timeout = 60)
{
	watched = broker_start("64M", NULL);
	for (int i = 0; i < N; i++)
		cr_assert(
			eq(int, command_say(watched, "alloc", "x%d 16 kind=host", i), 0));
	guests_come();
	counts = true;
	owners_drop(watched);
	counts = false;
	for (uid_t uid = FIRST; uid <= LAST; uid++)
		cr_expect(eq(ptr, owner_find(watched->registry, uid), NULL));
	/* One walk is for all. */
	cr_expect(eq(uint, n_steps, N + 1));
	cr_expect(le(uint, most_held, N_AT_A_TIME));
	broker_end(watched);
}
