/* SPDX-License-Identifier: MIT */
/*
 * A user may have many allocations that a line of `free cgroup=` looks at. The linker
 * puts these functions in front of the lock's, and of those that each look calls.
 */
#include "memops/free_from.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "base/cgroup.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/origin.h"
#include "model/registry.h"
#include "model/save.h"
#include "record/records.h"
#include "unit/broker_help.h"

#define N	    600
#define N_AT_A_TIME 260

static const struct caller other = { .uid = 1001, .gid = 1001 };
static const struct caller root = { .uid = 0 };

static struct broker *watched;
static unsigned int n_looks, n_looks_held, most_held;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
bool __real_caller_may(const struct caller *caller, const struct allocation *allocation,
		       enum access access);
bool __wrap_caller_may(const struct caller *caller, const struct allocation *allocation,
		       enum access access);
bool __real_cgroup_is_within(const char *path, const char *other);
bool __wrap_cgroup_is_within(const char *path, const char *other);

static __thread bool counts;
static void (*meddle)(void); /* when the lock was let go of for the first time */

static void look(void)
{
	if (!counts)
		return;
	n_looks++;
	most_held = MAX(most_held, ++n_looks_held);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	if (counts && mutex == &watched->registry->lock) {
		if (meddle && n_looks) {
			counts = false;
			meddle();
			meddle = NULL;
			counts = true;
		}
		n_looks_held = 0;
	}
	return __real_pthread_mutex_lock(mutex);
}

bool __wrap_caller_may(const struct caller *caller, const struct allocation *allocation,
		       enum access access)
{
	look();
	return __real_caller_may(caller, allocation, access);
}

bool __wrap_cgroup_is_within(const char *path, const char *other_path)
{
	look();
	return __real_cgroup_is_within(path, other_path);
}

/* As a line of this cgroup would have made it. */
static void comes_from(struct allocation *allocation, const char *cgroup)
{
	struct registry *registry = watched->registry;

	pthread_mutex_lock(&registry->lock);
	records_begin(registry->records);
	origin_leave(allocation);
	cr_assert(eq(int, origin_add(allocation->owner, cgroup, allocation), 0));
	allocation_save(allocation);
	records_end(registry->records);
	pthread_mutex_unlock(&registry->lock);
}

static struct allocation *named(const char *name)
{
	struct token token;

	cr_assert(eq(int,
		     object_find(watched, OBJECT_ALLOCATION,
				 allocation_named(watched, "d"), name, &token),
		     0));
	return allocation_get(watched->registry, token.slot, token.generation);
}

/* The user of command_say() has N allocations of /job in a folder of the user's own. */
static void set_up(void)
{
	struct token token;
	char name[32];

	watched = broker_start("64M", NULL);
	cr_assert(eq(int, object_make(watched, OBJECT_ALLOCATION, "d", &token), 0));
	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "d/x%d", i);
		cr_assert(eq(int, command_say(watched, "alloc", "%s 16 kind=host", name),
			     0));
		snprintf(name, sizeof(name), "x%d", i);
		comes_from(named(name), "/job");
	}
}

static void tear_down(void)
{
	broker_end(watched);
}

TestSuite(free_from, .init = set_up, .fini = tear_down, .timeout = 60);

static uint64_t free_from(const struct caller *caller, const char *cgroup)
{
	uint64_t bytes, n;

	n_looks = n_looks_held = most_held = 0;
	counts = true;
	n = allocations_free_from(watched, caller, cgroup, &bytes);
	counts = false;
	cr_expect(eq(u64, bytes, 16 * n));
	return n;
}

/* Nobody may write the folder. */
static void close_folder(void)
{
	struct folder *folder =
		entry_folder(folder_find(&watched->registry->allocation_root, "d"));

	pthread_mutex_lock(&watched->registry->lock);
	folder->mode = 0555;
	folder_save(folder);
	pthread_mutex_unlock(&watched->registry->lock);
}

Test(free_from, nothing_of_another_user_is_looked_at)
{
	cr_expect(eq(u64, free_from(&other, "/job"), 0));
	cr_expect(eq(uint, n_looks, 0));
}

Test(free_from, another_cgroup_is_one_look)
{
	cr_expect(eq(u64, free_from(&nobody_special, "/jo"), 0));
	cr_expect(eq(u64, free_from(&root, "/job/below"), 0));
	cr_expect(eq(uint, n_looks, 1));
}

Test(free_from, others_get_the_lock_while_nothing_can_be_freed)
{
	close_folder();
	cr_expect(eq(u64, free_from(&nobody_special, "/job"), 0));
	cr_expect(eq(uint, n_looks, N + 1));
	cr_expect(le(uint, most_held, N_AT_A_TIME));
}

Test(free_from, others_get_the_lock_while_root_frees)
{
	cr_expect(eq(u64, free_from(&root, "/"), N));
	cr_expect(eq(uint, n_looks, N + 1));
	cr_expect(le(uint, most_held, N_AT_A_TIME));
}

/* As when another owner gives the allocation to the one whose are walked along. */
static void new_one_comes_before_an_old_one(void)
{
	cr_assert(eq(int, command_say(watched, "alloc", "d/new 16 kind=host"), 0));
	comes_from(named("new"), "/job");
	comes_from(named("x500"), "/job");
}

Test(free_from, old_allocation_behind_a_new_one_is_freed)
{
	meddle = new_one_comes_before_an_old_one;
	cr_expect(eq(u64, free_from(&root, "/job"), N));
	cr_expect(eq(ptr, meddle, NULL));
	cr_expect(eq(u64, free_from(&root, "/job"), 1));
}
