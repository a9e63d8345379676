/* SPDX-License-Identifier: MIT */
#include "op/deadline.h"

#include <utlist.h>

#include "base/clock.h"
#include "model/registry.h"
#include "op/op.h"
#include "process/processes.h"

/* period of the housekeeper when not woken */
#define LOOKED_AT_MS 1000

void deadline_set(struct broker *broker, struct deadline *deadline, uint32_t ms,
		  void (*passed)(struct deadline *deadline))
{
	deadline_clear(broker, deadline);
	deadline->at_ms = clock_ms() + ms;
	deadline->passed = passed;
	DL_APPEND(broker->ops->deadlines, deadline);
	if (ms < LOOKED_AT_MS)
		broker_wake_housekeeper(broker);
}

void deadline_clear(struct broker *broker, struct deadline *deadline)
{
	if (deadline->at_ms)
		DL_DELETE(broker->ops->deadlines, deadline);
	deadline->at_ms = 0;
}

/*
 * Finds a deadline that has passed. NULL: none; *ret_next is the time to the next, or -1.
 */
static struct deadline *deadline_find_passed(struct broker *broker, int64_t now,
					     int64_t *ret_next)
{
	struct deadline *deadline;

	*ret_next = -1;
	DL_FOREACH (broker->ops->deadlines, deadline) {
		int64_t left = deadline->at_ms - now;

		if (left <= 0)
			return deadline;
		*ret_next = *ret_next < 0 ? left : MIN(*ret_next, left);
	}
	return NULL;
}

int64_t deadlines_check(struct broker *broker)
{
	int64_t now = clock_ms(), next;
	struct deadline *deadline;

	pthread_mutex_lock(&broker->registry->lock);
	while ((deadline = deadline_find_passed(broker, now, &next))) {
		deadline_clear(broker, deadline);
		deadline->passed(deadline);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(NULL);
	return next;
}
