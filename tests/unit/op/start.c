/* SPDX-License-Identifier: MIT */
/*
 * A chain of ops of which each adds the next: no thread has to run all of them, since
 * others may wait for that thread.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "base/clock.h"
#include "model/owner.h"
#include "model/registry.h"
#include "op/op.h"
#include "unit/broker_help.h"

#define CHAIN	2000
#define EACH_NS 100000
#define OWNER	1000

TestSuite(start, .timeout = 60);

static pthread_t starter;
static unsigned int n_by_starter, n_by_others; /* atomic */

static void add_next(struct broker *broker);

static void run(struct op *op)
{
	unsigned int *n =
		pthread_equal(pthread_self(), starter) ? &n_by_starter : &n_by_others;

	__atomic_add_fetch(n, 1, __ATOMIC_RELAXED);
	clock_pause(EACH_NS);
	if (n_by_starter + n_by_others < CHAIN)
		add_next(op->broker);
	op_done(op, 0);
}

static const struct op_class link_class = { .what = "link", .run = run };

static void add_next(struct broker *broker)
{
	struct op *ready = NULL, *op;

	pthread_mutex_lock(&broker->registry->lock);
	op = op_new(sizeof(*op), &link_class, broker,
		    owner_make(broker->registry, OWNER));
	cr_assert(eq(int, op_add(op, &ready), 0));
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(ready);
}

Test(start, a_chain_without_end_is_handed_to_other_threads)
{
	struct broker *broker = broker_start("64M", NULL);

	starter = pthread_self();
	add_next(broker);
	broker_settle(broker);
	cr_expect(eq(uint, n_by_starter + n_by_others, CHAIN));
	cr_expect(lt(uint, n_by_starter, CHAIN / 4));
	cr_expect(gt(uint, n_by_starter, 0));
	broker_end(broker);
}
