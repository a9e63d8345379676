/* SPDX-License-Identifier: MIT */
/* Allocations that a control descriptor frees when it is closed. */
#include "api/kept.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>

#include "model/allocation.h"
#include "model/registry.h"
#include "unit/broker_help.h"

TestSuite(kept, .timeout = 60);

static struct token make(struct broker *broker, const char *name)
{
	cr_assert(eq(int, command_say(broker, "alloc", "%s 16", name), 0));
	return allocation_named(broker, name);
}

static void publish(struct broker *broker, struct token token)
{
	pthread_mutex_lock(&broker->registry->lock);
	allocation_get(broker->registry, token.slot, token.generation)->until_close =
		false;
	pthread_mutex_unlock(&broker->registry->lock);
}

Test(kept, those_that_have_ended_take_no_room)
{
	struct broker *broker = broker_start("32M", NULL);
	struct kept kept = { 0 };

	cr_assert(eq(int, kept_add(&kept, broker->registry, make(broker, "first")), 0));
	for (int i = 0; i < 1000; i++) {
		struct token token = make(broker, "x");

		cr_assert(eq(int, kept_add(&kept, broker->registry, token), 0));
		if (i % 2)
			publish(broker, token);
		cr_assert(eq(int, command_say(broker, "free", "x"), 0));
	}
	cr_assert(le(sz, kept.capacity, 16));
	make(broker, "other");
	kept_free(&kept, broker);
	broker_settle(broker);
	cr_assert(eq(u64, broker->registry->n_allocations, 1));
	cr_assert(eq(int, command_say(broker, "free", "other"), 0));
	broker_end(broker);
}

Test(kept, many_are_freed_together)
{
	struct broker *broker = broker_start("32M", NULL);
	struct kept kept = { 0 };
	char name[16];

	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "x%d", i);
		cr_assert(eq(int, kept_add(&kept, broker->registry, make(broker, name)),
			     0));
	}
	kept_free(&kept, broker);
	broker_settle(broker);
	cr_assert(eq(u64, broker->registry->n_allocations, 0));
	broker_end(broker);
}
