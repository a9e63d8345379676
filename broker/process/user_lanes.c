/* SPDX-License-Identifier: MIT */
#include "process/user_lanes.h"

#include <stdlib.h>

#include "base/subordinates.h"
#include "base/workqueue.h"
#include "memory/kept.h"
#include "model/registry.h"
#include "process/broker.h"

_Static_assert(USER_LANES <= WORKQUEUE_THREADS_MOST, "a work queue has no more");
_Static_assert(USER_SEARCHES <= WORKQUEUE_THREADS_MOST, "a work queue has no more");

/* There are no longer tasks in the queue for shorter ones to wait for. */
static void add(const struct broker *broker, struct workqueue *queue, uid_t uid,
		struct task *task)
{
	task->length = TASK_SHORT;
	workqueue_add(queue, subordinates_user(broker->registry->subordinates, uid),
		      task);
}

void user_lane_add(const struct broker *broker, uid_t uid, struct task *task)
{
	add(broker, broker->user_lanes, uid, task);
}

void user_search_add(const struct broker *broker, uid_t uid, struct task *task)
{
	add(broker, broker->searches, uid, task);
}

void user_close_add(const struct broker *broker, uid_t uid, struct task *task)
{
	add(broker, broker->closers, uid, task);
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
	user_close_add(broker, uid, &closing->task);
}
