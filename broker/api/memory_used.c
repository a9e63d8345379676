/* SPDX-License-Identifier: MIT */
/*
 * Memory in use by all programs, known only to a worker's driver. The mover gets one
 * request for each device, and the last reply completes the answer. A signal can end the
 * wait before.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/attribute.h"
#include "api/broker.h"
#include "api/memory_used.h"
#include "api/text_maker.h"
#include "base/handle_table.h"
#include "model/registry.h"
#include "model/shares.h"
#include "process/broker.h"
#include "process/device_query.h"
#include "process/processes.h"

struct memory_used {
	struct device_query query;
	struct broker *broker;
	struct completion *wait; /* NULL: interrupted. registry.lock */
	struct owner *payer;	 /* charged for the question */
	bool space;		 /* for statfs; otherwise for an attribute */
};

static void memory_used_answer(const struct memory_used *used, struct completion *wait,
			       uint64_t n_allocations)
{
	const struct device_query *query = &used->query;
	const struct broker_space space = {
		.total = query->total,
		.free = query->free,
		.n_allocations = n_allocations,
	};
	_cleanup_text_ struct text text = TEXT_INIT;

	if (used->space) {
		wait->done(wait, -query->error, &space, sizeof(space));
		return;
	}
	text_printf(&text, "%llu\n", (unsigned long long)(query->total - query->free));
	wait->done(wait, -query->error, text.data, text.length);
}

static void memory_used_done(struct device_query *query)
{
	struct memory_used *used = container_of(query, struct memory_used, query);
	struct registry *registry = used->broker->registry;
	struct completion *wait;
	uint64_t n_allocations;

	pthread_mutex_lock(&registry->lock);
	wait = completion_take(&used->wait);
	n_allocations = registry->n_allocations;
	share_give(used->payer, SHARE_QUESTIONS, 1);
	pthread_mutex_unlock(&registry->lock);
	if (wait)
		memory_used_answer(used, wait, n_allocations);
	free(used);
}

/* Asks about devices [first, first + n). */
static void memory_used_start(struct broker *broker, const struct caller *caller,
			      bool space, uint32_t first, uint32_t n,
			      struct completion *wait)
{
	struct registry *registry = broker->registry;
	struct memory_used *used = calloc(1, sizeof(*used));
	_cleanup_text_ struct text why = TEXT_INIT;
	char file[64];
	int r;

	if (!used) {
		wait->done(wait, -ENOMEM, NULL, 0);
		return;
	}
	used->query.done = memory_used_done;
	used->broker = broker;
	used->space = space;
	pthread_mutex_lock(&registry->lock);
	r = share_take_question(registry, caller, &used->payer, &why);
	if (r == 0)
		completion_hold(wait, &used->wait, NULL);
	pthread_mutex_unlock(&registry->lock);
	if (r == 0) {
		device_query(&used->query, &broker->processes->mover,
			     ((1u << n) - 1) << first);
		return;
	}
	free(used);
	snprintf(file, sizeof(file), space ? "." : "devices/%u/memory_used_bytes", first);
	broker_fail(broker, caller, file, -r, "%s", text_string(&why));
	wait->done(wait, r, NULL, 0);
}

void broker_space(struct broker *broker, const struct caller *caller,
		  struct completion *wait)
{
	memory_used_start(broker, caller, true, 0, broker->registry->n_devices, wait);
}

void ask_memory_used(struct broker *broker, struct token token,
		     const struct caller *caller, struct completion *wait)
{
	const struct device *device;
	uint32_t index = 0;

	pthread_mutex_lock(&broker->registry->lock);
	device = handle_table_get(&broker->registry->devices, token.slot,
				  token.generation);
	if (device)
		index = device->index;
	pthread_mutex_unlock(&broker->registry->lock);
	if (device)
		memory_used_start(broker, caller, false, index, 1, wait);
	else
		wait->done(wait, -ESTALE, NULL, 0);
}

void broker_ask(struct broker *broker, struct token token,
		const struct attribute *attribute, const struct caller *caller,
		struct completion *wait)
{
	int r = attribute->check ? attribute->check(broker, token, caller) : 0;

	if (r < 0)
		wait->done(wait, r, NULL, 0);
	else if (attribute->print)
		text_maker_ask(broker, token, attribute, caller, wait);
	else
		attribute->request(broker, token, caller, wait);
}
