/* SPDX-License-Identifier: MIT */
#include "memops/lifetime.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/refusal.h"
#include "base/subordinates.h"
#include "memops/lifetime_target.h"
#include "memops/release.h"
#include "model/owner.h"
#include "model/registry.h"
#include "unit/broker_help.h"

#define MANY 1000

static struct broker *broker;
static __thread unsigned int n_freed_here, n_closed_here;

void __real_allocation_release(struct broker *broker, struct allocation *allocation);
void __wrap_allocation_release(struct broker *broker, struct allocation *allocation);

void __wrap_allocation_release(struct broker *of, struct allocation *allocation)
{
	n_freed_here++;
	__real_allocation_release(of, allocation);
}

int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_close(int fd)
{
	n_closed_here++;
	return __real_close(fd);
}

static void start(void)
{
	broker = broker_start("64M", NULL);
}

static void stop(void)
{
	broker_end(broker);
}

TestSuite(lifetime, .init = start, .fini = stop, .timeout = 60);

/* The lifetime of this process, for a line of the user. Returns: the error. */
static int lifetime_try(uid_t uid, struct lifetime **ret)
{
	const struct caller user = { .uid = uid, .gid = uid, .pid = getpid() };
	const struct lifetime_of of = {
		.kind = LIFETIME_EXIT,
		.user = &user,
		.thread = gettid(),
	};
	struct refusal refusal;

	return lifetime_get(broker, &of, false, ret, &refusal);
}

static struct lifetime *lifetime_of_this_process(uid_t uid)
{
	struct lifetime *lifetime = NULL;

	cr_assert(eq(int, lifetime_try(uid, &lifetime), 0));
	return lifetime;
}

static void drop(struct lifetime *lifetime)
{
	pthread_mutex_lock(&broker->registry->lock);
	lifetime_unref(lifetime);
	pthread_mutex_unlock(&broker->registry->lock);
}

static uint64_t n_charged(uid_t uid)
{
	const struct owner *owner;
	uint64_t n;

	pthread_mutex_lock(&broker->registry->lock);
	owner = owner_find(broker->registry, uid);
	n = owner ? owner->shares.held[SHARE_DESCRIPTORS] : 0;
	pthread_mutex_unlock(&broker->registry->lock);
	return n;
}

/* Once what was dropped has been closed. */
static uint64_t n_descriptors_of(uid_t uid)
{
	broker_settle(broker);
	return n_charged(uid);
}

Test(lifetime, lines_of_a_user_share_one)
{
	struct lifetime *one = lifetime_of_this_process(2001);
	struct lifetime *same = lifetime_of_this_process(2001);

	cr_expect(eq(ptr, one, same));
	cr_expect(eq(u64, n_descriptors_of(2001), 1));
	drop(one);
	drop(same);
	cr_expect(eq(u64, n_descriptors_of(2001), 0));
}

Test(lifetime, each_user_pays_for_their_own)
{
	struct lifetime *first = lifetime_of_this_process(2001);
	struct lifetime *second = lifetime_of_this_process(2002);

	cr_expect(eq(u64, n_descriptors_of(2001), 1));
	cr_expect(eq(u64, n_descriptors_of(2002), 1));
	drop(first);
	cr_expect(eq(u64, n_descriptors_of(2001), 0));
	drop(second);
	cr_expect(eq(u64, n_descriptors_of(2002), 0));
}

/* Else a user takes all descriptors of the broker, by locks on a process of the user's.
 */
Test(lifetime, closes_that_last_are_one_for_a_process)
{
	closers_hold(broker);
	for (int i = 0; i < 100; i++)
		drop(lifetime_of_this_process(2001));
	cr_expect(eq(uint, n_own_pidfds(), 1));
	cr_expect(eq(u64, n_charged(2001), 1));
	closers_let_go();
	cr_expect(eq(u64, n_descriptors_of(2001), 0));
	cr_expect(eq(uint, n_own_pidfds(), 0));
}

Test(lifetime, a_line_beyond_the_share_opens_nothing)
{
	struct owner *owner;
	uint64_t n = 0;

	pthread_mutex_lock(&broker->registry->lock);
	owner = owner_make(broker->registry, 2001);
	while (share_take(owner, SHARE_DESCRIPTORS, 1) == 0)
		n++;
	pthread_mutex_unlock(&broker->registry->lock);
	closers_hold(broker);
	for (int i = 0; i < 100; i++)
		cr_assert(eq(int, lifetime_try(2001, NULL), -EMFILE));
	cr_expect(eq(uint, n_own_pidfds(), 0));
	closers_let_go();
	pthread_mutex_lock(&broker->registry->lock);
	share_give(owner, SHARE_DESCRIPTORS, n);
	pthread_mutex_unlock(&broker->registry->lock);
	cr_expect(eq(u64, n_descriptors_of(2001), 0));
}

#define RANGE 100000 /* its first uid */

static void read_range(void)
{
	char path[] = "/tmp/gpumem-subuid-XXXXXX";
	int fd = mkstemp(path);

	cr_assert(ge(int, dprintf(fd, "mallory:%d:65536\n", RANGE), 0));
	close(fd);
	broker->registry->subordinates = subordinates_new(path);
	unlink(path);
}

/* Else the end of the broker takes as long as the uids of a range are many. */
Test(lifetime, few_uids_of_a_range_share_a_process)
{
	struct lifetime *lifetimes[LIFETIME_TARGET_UIDS], *more = NULL;

	read_range();
	for (uid_t i = 0; i < LIFETIME_TARGET_UIDS; i++)
		lifetimes[i] = lifetime_of_this_process(RANGE + i);
	cr_expect(eq(int, lifetime_try(RANGE + 4000, &more), -EMFILE));
	for (uid_t i = 0; i < LIFETIME_TARGET_UIDS; i++)
		drop(lifetimes[i]);
	cr_expect(eq(u64, n_descriptors_of(RANGE), 0));
	drop(lifetime_of_this_process(RANGE + 4000));
	cr_expect(eq(u64, n_descriptors_of(RANGE + 4000), 0));
}

/* The cgroup of a service may have the jobs of all users. */
Test(lifetime, no_user_takes_the_place_of_another)
{
	enum { USERS = 3 * LIFETIME_TARGET_UIDS };
	struct lifetime *lifetimes[LIFETIME_TARGET_UIDS], *of_users[USERS];

	read_range();
	for (uid_t i = 0; i < LIFETIME_TARGET_UIDS; i++)
		lifetimes[i] = lifetime_of_this_process(RANGE + i);
	for (uid_t i = 0; i < USERS; i++)
		of_users[i] = lifetime_of_this_process(2001 + i);
	for (uid_t i = 0; i < LIFETIME_TARGET_UIDS; i++)
		drop(lifetimes[i]);
	for (uid_t i = 0; i < USERS; i++)
		drop(of_users[i]);
	cr_expect(eq(u64, n_descriptors_of(2001), 0));
}

static uint64_t n_allocations(void)
{
	uint64_t n;

	pthread_mutex_lock(&broker->registry->lock);
	n = broker->registry->n_allocations;
	pthread_mutex_unlock(&broker->registry->lock);
	return n;
}

/* A thread of the view serves the close of a descriptor. */
Test(lifetime, the_thread_of_the_end_frees_only_a_few)
{
	struct control *control = control_open(broker, "alloc");

	for (int i = 0; i < MANY; i++) {
		char line[64];
		int length =
			snprintf(line, sizeof(line), "a%d 16 kind=host until=close\n", i);

		cr_assert(eq(long, control_say(control, line), length));
	}
	cr_assert(eq(u64, n_allocations(), MANY));
	control_free(control);
	cr_expect(gt(uint, n_freed_here, 0));
	cr_expect(lt(uint, n_freed_here, MANY / 4));
	while (n_allocations() > 0)
		usleep(1000);
}

/* The kernel may take long, if users have put many locks on the file. */
Test(lifetime, the_work_queue_closes_its_descriptor)
{
	struct lifetime *lifetime = lifetime_of_this_process(1000);

	n_closed_here = 0;
	drop(lifetime);
	cr_expect(eq(uint, n_closed_here, 0));
	cr_expect(eq(u64, n_descriptors_of(1000), 0));
}
