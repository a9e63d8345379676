/* SPDX-License-Identifier: MIT */
#include "memops/lifetime.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <unistd.h>

#include "base/refusal.h"
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

/* The lifetime of this process, for a line of the user. */
static struct lifetime *lifetime_of_this_process(uid_t uid)
{
	const struct caller user = { .uid = uid, .gid = uid, .pid = getpid() };
	const struct lifetime_of of = {
		.kind = LIFETIME_EXIT,
		.user = &user,
		.thread = gettid(),
	};
	struct lifetime *lifetime = NULL;
	struct refusal refusal;

	cr_assert(eq(int, lifetime_get(broker, &of, false, &lifetime, &refusal), 0));
	return lifetime;
}

static void drop(struct lifetime *lifetime)
{
	pthread_mutex_lock(&broker->registry->lock);
	lifetime_unref(lifetime);
	pthread_mutex_unlock(&broker->registry->lock);
}

static uint64_t n_descriptors_of(uid_t uid)
{
	const struct owner *owner;
	uint64_t n;

	/* The work queue closes what was dropped. */
	broker_settle(broker);
	pthread_mutex_lock(&broker->registry->lock);
	owner = owner_find(broker->registry, uid);
	n = owner ? owner->shares.held[SHARE_DESCRIPTORS] : 0;
	pthread_mutex_unlock(&broker->registry->lock);
	return n;
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
