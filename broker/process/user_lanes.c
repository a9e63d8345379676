/* SPDX-License-Identifier: MIT */
#include "process/user_lanes.h"

#include "base/subordinates.h"
#include "base/workqueue.h"
#include "model/registry.h"
#include "process/broker.h"

void user_lane_add(const struct broker *broker, uid_t uid, struct task *task)
{
	workqueue_add(broker->user_lanes,
		      subordinates_user(broker->registry->subordinates, uid), task);
}
