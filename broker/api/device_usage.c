/* SPDX-License-Identifier: MIT */
/*
 * Memory in use by all programs, known only to a worker's driver. The mover gets one
 * request for each device, and the last reply completes the answer. A signal can end the
 * wait before.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/broker.h"
#include "api/device_usage.h"
#include "op/op.h"
#include "process/broker.h"
#include "process/processes.h"

struct asking;

struct asking_device {
	struct ask ask;
	struct asking *asking;
};

struct asking {
	struct broker *broker;
	struct completion *wait; /* NULL: interrupted. registry.lock, like all below */
	struct owner *payer;	 /* charged for the question; NULL: nobody */
	bool space;		 /* for statfs; otherwise for an attribute */
	unsigned int n_open;
	int error;
	uint64_t free, total;
	struct asking_device devices[DEVICES_MAX];
};

static void asking_answer(struct asking *asking, struct completion *wait)
{
	struct broker_space space = { .total = asking->total, .free = asking->free };
	_cleanup_text_ struct text text = TEXT_INIT;

	if (asking->space) {
		pthread_mutex_lock(&asking->broker->registry.lock);
		space.n_allocations = asking->broker->registry.n_allocations;
		pthread_mutex_unlock(&asking->broker->registry.lock);
		wait->done(wait, -asking->error, &space, sizeof(space));
		return;
	}
	text_printf(&text, "%llu\n", (unsigned long long)(asking->total - asking->free));
	wait->done(wait, -asking->error, text.data, text.length);
}

/* Counts a reply; the last one answers. */
static void asking_settle(struct asking *asking, int error, uint64_t free_bytes,
			  uint64_t total)
{
	struct completion *wait = NULL;
	bool last;

	pthread_mutex_lock(&asking->broker->registry.lock);
	if (error)
		asking->error = error;
	asking->free += MIN(free_bytes, total);
	asking->total += total;
	last = --asking->n_open == 0;
	if (last)
		wait = completion_take(&asking->wait);
	if (last && asking->payer)
		share_give(asking->payer, SHARE_QUESTIONS, 1);
	pthread_mutex_unlock(&asking->broker->registry.lock);
	if (wait)
		asking_answer(asking, wait);
	if (last)
		free(asking);
}

static void asking_replied(struct ask *ask, const struct wire_reply *reply, bool lost)
{
	struct asking *asking = container_of(ask, struct asking_device, ask)->asking;

	asking_settle(asking, lost || reply->error ? EIO : 0, reply->value[0],
		      reply->value[1]);
}

/* Charges the caller, and then the wait can be ended. Returns: as share_take_question().
 */
static int asking_charge(struct asking *asking, const struct caller *caller,
			 struct completion *wait, struct text *why)
{
	struct registry *registry = &asking->broker->registry;
	int r;

	pthread_mutex_lock(&registry->lock);
	r = share_take_question(registry, caller, &asking->payer, why);
	if (r == 0)
		completion_hold(wait, &asking->wait, NULL);
	pthread_mutex_unlock(&registry->lock);
	return r;
}

/* Asks about devices [first, first + n). The caller may be NULL, the broker itself. */
static void asking_start(struct broker *broker, const struct caller *caller, bool space,
			 uint32_t first, uint32_t n, struct completion *wait)
{
	const struct worker_needs none = { 0 };
	struct asking *asking = calloc(1, sizeof(*asking));
	_cleanup_text_ struct text why = TEXT_INIT;
	uint32_t epoch;
	char file[64];
	int r;

	if (!asking) {
		wait->done(wait, -ENOMEM, NULL, 0);
		return;
	}
	asking->broker = broker;
	asking->space = space;
	asking->n_open = n;
	r = asking_charge(asking, caller, wait, &why);
	if (r < 0) {
		free(asking);
		snprintf(file, sizeof(file), space ? "." : "devices/%u/memory_used",
			 first);
		broker_fail(broker, caller, file, -r, "%s", text_string(&why));
		wait->done(wait, r, NULL, 0);
		return;
	}

	for (uint32_t i = 0; i < n; i++) {
		struct asking_device *device = &asking->devices[i];

		device->asking = asking;
		device->ask = (struct ask){
			.request = { .op = WIRE_MEMORY, .device = first + i },
			.fd = -1,
			.done = asking_replied,
		};
		if (worker_ask(&broker->processes->mover, &none, &device->ask, &epoch) <
		    0)
			asking_settle(asking, EIO, 0, 0);
	}
}

void broker_space(struct broker *broker, const struct caller *caller,
		  struct completion *wait)
{
	asking_start(broker, caller, true, 0, broker->registry.n_devices, wait);
}

void ask_memory_used(struct broker *broker, struct token token,
		     const struct caller *caller, struct completion *wait)
{
	const struct device *device;
	uint32_t index = 0;

	pthread_mutex_lock(&broker->registry.lock);
	device = slots_get(&broker->registry.devices, token.slot, token.generation);
	if (device)
		index = device->index;
	pthread_mutex_unlock(&broker->registry.lock);
	if (device)
		asking_start(broker, caller, false, index, 1, wait);
	else
		wait->done(wait, -ESTALE, NULL, 0);
}

void broker_ask(struct broker *broker, struct token token,
		const struct attribute *attribute, const struct caller *caller,
		struct completion *wait)
{
	attribute->ask(broker, token, caller, wait);
}
