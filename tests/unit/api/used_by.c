/* SPDX-License-Identifier: MIT */
/*
 * `used_by` and `used_by_kernel` name the first in the order that others may have to wait
 * long for. An owner may have thousands of other works there, which no reader looks at
 * under the lock.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "api/attribute_show.h"
#include "api/attribute_view.h"
#include "base/handle_table.h"
#include "base/text.h"
#include "model/allocation.h"
#include "model/owner.h"
#include "model/registry.h"
#include "op/op.h"
#include "unit/broker_help.h"

static struct broker *broker;
static struct allocation *allocation;
static struct owner *owner, *other;

static void start(void)
{
	struct token token;

	broker = broker_start("64M", NULL);
	cr_assert(eq(int, command_say(broker, "alloc", "a 4K kind=host"), 0));
	token = allocation_named(broker, "a");
	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	owner = allocation->owner;
	other = owner_make(broker->registry, 1001);
	pthread_mutex_unlock(&broker->registry->lock);
}

static void stop(void)
{
	broker_end(broker);
}

TestSuite(used_by, .init = start, .fini = stop, .timeout = 60);

/* ---- works that last until the test ends them ---- */

static void last(struct op *op)
{
	(void)op;
}

static const char *name_kernel(const struct op *op)
{
	(void)op;
	return "m/f";
}

static const struct kernel_class kernel = { .name = name_kernel };
static const struct op_class work_class = { .what = "work", .run = last };
static const struct op_class kernel_class = {
	.what = "kernel",
	.run = last,
	.kernel = &kernel,
};

static struct op *add(const struct op_class *class, struct owner *payer, bool unasked)
{
	struct op *op, *ready = NULL;

	pthread_mutex_lock(&broker->registry->lock);
	op = op_new(sizeof(*op), class, broker, owner);
	op->payer = payer;
	op->work.unasked = unasked;
	work_use(&op->work, allocation, 0, 16, false);
	cr_assert(eq(int, op_add(op, &ready), 0));
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(ready);
	return op;
}

/* ---- what is shown ---- */

/* Shows with the list of all uses out of reach. */
static void expect_shown(const char *user, const char *of_kernel)
{
	const struct attribute_view view = { .broker = broker, .allocation = allocation };
	_cleanup_text_ struct text used_by = TEXT_INIT, used_by_kernel = TEXT_INIT;
	struct use *all;

	pthread_mutex_lock(&broker->registry->lock);
	all = allocation->all_uses;
	allocation->all_uses = (struct use *)sizeof(struct use);
	show_allocation_used_by(&view, &used_by);
	show_allocation_used_by_kernel(&view, &used_by_kernel);
	allocation->all_uses = all;
	pthread_mutex_unlock(&broker->registry->lock);
	cr_expect(eq(str, (char *)text_string(&used_by), (char *)user));
	cr_expect(eq(str, (char *)text_string(&used_by_kernel), (char *)of_kernel));
}

Test(used_by, first_that_lasts_is_shown)
{
	struct op *of_owner = add(&work_class, owner, false);
	struct op *of_other, *launched;

	expect_shown("none", "none");
	of_other = add(&work_class, other, false);
	launched = add(&kernel_class, owner, false);
	expect_shown("1001", "none");
	op_done(of_other, 0);
	expect_shown("1000", "m/f");
	op_done(of_owner, 0);
	expect_shown("1000", "m/f");
	op_done(launched, 0);
	expect_shown("none", "none");
}

Test(used_by, readahead_counts_when_somebody_asks_for_it)
{
	struct op *ahead = add(&work_class, other, true);
	struct op *launched = add(&kernel_class, owner, false);

	expect_shown("1000", "m/f");
	pthread_mutex_lock(&broker->registry->lock);
	order_set_unasked(&ahead->work, false);
	pthread_mutex_unlock(&broker->registry->lock);
	expect_shown("1001", "none");
	op_done(launched, 0);
	op_done(ahead, 0);
	expect_shown("none", "none");
}
