/* SPDX-License-Identifier: MIT */
#include "memops/late_close.h"

#include "base/workqueue.h"
#include "memory/kept.h"
#include "model/owner.h"
#include "model/registry.h"
#include "process/broker.h"

/* So much is freed by the caller, or by the keeper, in some 10 us: many short texts shall
 * not wait in the queue, with a descriptor each. */
#define CLOSED_AT_ONCE ((uint64_t)64 << 10)

struct closer {
	struct task task;
	struct broker *broker;
	struct late_close what;
};

void late_close_give(const struct late_close *what)
{
	share_give(what->payer, what->share, what->size);
	share_give(what->payer, SHARE_DESCRIPTORS, what->n_descriptors);
}

static void close_all(struct late_close *what)
{
	for (size_t i = 0; i < LATE_CLOSE_FDS; i++)
		closep(&what->fds[i]);
}

static void closer_run(struct task *task)
{
	struct closer *closer = container_of(task, struct closer, task);
	struct registry *registry = closer->broker->registry;

	kept_end(closer->broker->memory, closer->what.kept);
	close_all(&closer->what);
	pthread_mutex_lock(&registry->lock);
	late_close_give(&closer->what);
	registry_less_busy(registry);
	pthread_mutex_unlock(&registry->lock);
	free(closer);
}

static void close_now(struct broker *broker, const struct late_close *what)
{
	struct late_close now = *what;

	kept_forget(broker->memory, now.kept);
	close_all(&now);
	late_close_give(&now);
}

void late_close(struct broker *broker, const struct late_close *what)
{
	struct closer *closer = NULL;

	if (what->bytes > CLOSED_AT_ONCE)
		closer = calloc(1, sizeof(*closer));
	/* Without memory others wait. */
	if (!closer) {
		close_now(broker, what);
		return;
	}
	*closer = (struct closer){
		.task = { .run = closer_run,
			  .length = task_length_of_filling(what->bytes) },
		.broker = broker,
		.what = *what,
	};
	broker->registry->n_busy++;
	workqueue_add(broker->workqueue, (uint64_t)what->payer->uid | WORKQUEUE_RELEASES,
		      &closer->task);
}
