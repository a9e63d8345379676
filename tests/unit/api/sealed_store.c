/* SPDX-License-Identifier: MIT */
/* A write to `sealed`. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "api/sealed_store.h"
#include "memops/permissions.h"
#include "model/owner.h"
#include "model/registry.h"
#include "op/op.h"
#include "unit/broker_help.h"

TestSuite(sealed_store, .timeout = 60);

static unsigned int n_run;

static void run(struct op *op)
{
	n_run++;
	op_done(op, 0);
}

static const struct op_class withdrawal_class = { .what = "withdrawal", .run = run };

int __wrap_guests_seal(struct broker *broker, struct allocation *allocation,
		       struct op **ready);

/* As with a guest who has the memory mapped. */
int __wrap_guests_seal(struct broker *broker, struct allocation *allocation,
		       struct op **ready)
{
	struct op *more = NULL,
		  *op = op_new(sizeof(*op), &withdrawal_class, broker, allocation->owner);

	cr_assert(eq(int, op_add_unlimited(op, &more), 0));
	op_push_all(ready, more);
	return 0;
}

/* The thread may have nothing else to start for hours, and reads wait for what is left.
 */
Test(sealed_store, what_is_taken_from_guests_is_begun_at_once)
{
	struct broker *broker = broker_start("64M", NULL);
	struct answer answer;

	cr_assert(eq(int, command_say(broker, "alloc", "x 4K kind=host"), 0));
	sealed_store(broker, allocation_named(broker, "x"), &nobody_special, "1", 1,
		     answer_expect(&answer));
	cr_assert(eq(int, answer_get(&answer), 0));
	cr_expect(eq(uint, n_run, 1));
	broker_settle(broker);
	cr_assert(eq(int, command_say(broker, "free", "x"), 0));
	broker_end(broker);
}
