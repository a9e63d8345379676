/* SPDX-License-Identifier: MIT */
/*
 * The standby: a process of the broker's program that has done before it is needed all
 * that takes long and needs no records (broker_new()): it has loaded its libraries,
 * called cuInit and asked for the devices. It has no context on a GPU and no descriptor
 * of the keeper, and waits (keep_stand_by()). When the broker dies, the standby is given
 * all descriptors and goes on like a process that was just started.
 *
 * A broker that has begun to answer may have many callers that waited, so the standby is
 * started a second later. A standby that dies is started again, each time after a longer
 * wait, until a broker begins. One of an older program is dropped by an upgrade.
 */
#include "base/clock.h"
#include "base/def.h"
#include "keep/keeper.h"

#define AFTER_ANSWER_MS 1000

void standby_allow(struct keeper *keeper)
{
	keeper->n_standby_ends = 0;
	keeper->standby_ms = clock_ms() + AFTER_ANSWER_MS;
}

static void wait_longer(struct keeper *keeper)
{
	keeper->standby_ms = clock_ms() + keeper_wait_ms(keeper->n_standby_ends++);
}

void standby_look(struct keeper *keeper)
{
	struct child *standby = &keeper->standby;

	if (standby->pid || !keeper->broker.ready || keeper->ends)
		return;
	if (standby->socket >= 0) {
		child_close(keeper, standby);
		wait_longer(keeper);
	}
	if (clock_ms() < keeper->standby_ms)
		return;
	if (child_start(keeper, keeper->program, standby) < 0)
		wait_longer(keeper);
}

bool standby_use(struct keeper *keeper)
{
	child_reap(&keeper->standby);
	if (!keeper->standby.pid)
		return false;
	keeper->broker = keeper->standby;
	keeper->standby = CHILD_NONE;
	if (child_give(keeper, &keeper->broker) == 0)
		return true;
	/* It has died in this moment. */
	child_end(keeper, &keeper->broker);
	return false;
}

void standby_drop(struct keeper *keeper)
{
	child_end(keeper, &keeper->standby);
}
