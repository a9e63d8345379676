/* SPDX-License-Identifier: MIT */
#include "process/user_lanes.h"

#include "base/subordinates.h"
#include "base/workqueue.h"
#include "model/registry.h"
#include "process/broker.h"

_Static_assert(USER_LANES <= WORKQUEUE_THREADS_MOST, "a work queue has no more");

/* There are no longer tasks in the lanes for shorter ones to wait for. */
void user_lane_add(const struct broker *broker, uid_t uid, struct task *task)
{
	task->length = TASK_SHORT;
	workqueue_add(broker->user_lanes,
		      subordinates_user(broker->registry->subordinates, uid), task);
}
