/* SPDX-License-Identifier: MIT */
#include "process/user_lanes.h"

#include <stdlib.h>

#include "base/subordinates.h"
#include "base/workqueue.h"
#include "memory/kept.h"
#include "model/registry.h"
#include "process/broker.h"

static const unsigned int n_threads[N_USER_LANES] = {
	[LANE_FILES] = 16,
	[LANE_SEARCHES] = 16,
	[LANE_CLOSES] = 4,
};

int user_lanes_init(struct workqueue *lanes)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < N_USER_LANES; i++)
		r = workqueue_init(&lanes[i], n_threads[i], 1);
	return r;
}

void user_lanes_deinit(struct workqueue *lanes)
{
	for (size_t i = 0; i < N_USER_LANES; i++)
		workqueue_deinit(&lanes[i]);
}

/* There are no longer tasks in the queue for shorter ones to wait for. */
void user_lane_add(const struct broker *broker, enum user_lane lane, uid_t uid,
		   struct task *task)
{
	task->length = TASK_SHORT;
	workqueue_add(&broker->user_lanes[lane],
		      subordinates_user(broker->registry->subordinates, uid), task);
}

struct closing {
	struct task task;
	struct broker *broker;
	int fd;
	struct keep_key kept;
};

static void closing_run(struct task *task)
{
	struct closing *closing = container_of(task, struct closing, task);
	struct registry *registry = closing->broker->registry;

	kept_end(closing->broker->memory, closing->kept);
	closep(&closing->fd);
	pthread_mutex_lock(&registry->lock);
	registry_less_busy(registry);
	pthread_mutex_unlock(&registry->lock);
	free(closing);
}

void user_close(struct broker *broker, uid_t uid, int fd, struct keep_key kept)
{
	struct closing *closing = malloc(sizeof(*closing));

	/* Without memory others wait. */
	if (!closing) {
		kept_forget(broker->memory, kept);
		closep(&fd);
		return;
	}
	*closing = (struct closing){ { .run = closing_run }, broker, fd, kept };
	broker->registry->n_busy++;
	user_lane_add(broker, LANE_CLOSES, uid, &closing->task);
}
