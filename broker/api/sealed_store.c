/* SPDX-License-Identifier: MIT */
#include "api/sealed_store.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "api/attribute.h"
#include "api/broker.h"
#include "base/completion.h"
#include "base/def.h"
#include "base/workqueue.h"
#include "memops/seal.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/registry.h"
#include "process/broker.h"
#include "process/user_lanes.h"

static const struct attribute sealed = { .name = "sealed" };

/* A write of 1 in the lane of the user, who may have put many locks on the file. */
struct sealing {
	struct task task;
	struct broker *broker;
	struct token token;
	struct caller caller;
	struct completion *wait;
	size_t length;
};

static int seal_now(struct broker *broker, struct token token,
		    const struct caller *caller)
{
	seal_ask_of(broker, caller, token);
	return broker_store(broker, OBJECT_ALLOCATION, token, &sealed, caller, "1", 1);
}

static void sealing_run(struct task *task)
{
	struct sealing *sealing = container_of(task, struct sealing, task);
	struct broker *broker = sealing->broker;
	struct completion *wait = sealing->wait;
	size_t length = sealing->length;
	int r = seal_now(broker, sealing->token, &sealing->caller);

	free(sealing);
	pthread_mutex_lock(&broker->registry->lock);
	registry_less_busy(broker->registry);
	pthread_mutex_unlock(&broker->registry->lock);
	wait->done(wait, r, NULL, length);
}

static bool is_one(const char *value, size_t length)
{
	return length && value[0] == '1' &&
	       (length == 1 || (length == 2 && value[1] == '\n'));
}

/* Without memory others wait. Returns: whether the lane goes on. */
static bool sealing_begin(const struct sealing *sealing)
{
	struct broker *broker = sealing->broker;
	const struct allocation *allocation;
	struct sealing *copy = NULL;

	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, sealing->token.slot,
				    sealing->token.generation);
	if (allocation && seal_question_lasts(&sealing->caller, allocation))
		copy = malloc(sizeof(*copy));
	if (copy) {
		*copy = *sealing;
		broker->registry->n_busy++;
		user_lane_add(broker, LANE_FILES, copy->caller.uid, &copy->task);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	return copy;
}

void sealed_store(struct broker *broker, struct token token, const struct caller *caller,
		  const char *value, size_t length, struct completion *wait)
{
	const struct sealing sealing = {
		.task = { .run = sealing_run },
		.broker = broker,
		.token = token,
		.caller = *caller,
		.wait = wait,
		.length = length,
	};

	int r;

	if (is_one(value, length)) {
		if (sealing_begin(&sealing))
			return;
		r = seal_now(broker, token, caller);
	} else {
		r = broker_store(broker, OBJECT_ALLOCATION, token, &sealed, caller, value,
				 length);
	}
	wait->done(wait, r, NULL, length);
}
