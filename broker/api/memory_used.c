/* SPDX-License-Identifier: MIT */
/*
 * Memory in use by all programs, known only to a worker's driver. The mover gets one
 * request for each device, and the last reply completes the answer. A signal ends the
 * wait of an asker, and the requests stay. So one question about the same devices is at
 * the mover at a time. Later askers share the next question, so their answer counts all
 * that was done before they asked.
 */
#include "api/memory_used.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "api/attribute.h"
#include "api/broker.h"
#include "api/text_maker.h"
#include "base/handle_table.h"
#include "model/registry.h"
#include "model/shares.h"
#include "process/broker.h"
#include "process/device_query.h"
#include "process/processes.h"

struct memory_asker {
	struct completion *wait; /* NULL: interrupted. registry.lock */
	struct owner *payer;	 /* charged for the question */
	bool space;		 /* for statfs; otherwise for an attribute */
	struct memory_asker *prev, *next;

	/* Of the first asker of a question alone: */
	struct broker *broker;
	struct memory_question *question;
	uint32_t devices; /* a bit mask */
	struct device_query query;
};

static void memory_used_answer(const struct device_query *query,
			       const struct memory_asker *asker, uint64_t n_allocations)
{
	const struct broker_space space = {
		.total = query->total,
		.free = query->free,
		.n_allocations = n_allocations,
	};
	struct completion *wait = asker->wait;
	_cleanup_text_ struct text text = TEXT_INIT;

	if (asker->space) {
		wait->done(wait, -query->error, &space, sizeof(space));
		return;
	}
	text_printf(&text, "%llu\n", (unsigned long long)(query->total - query->free));
	wait->done(wait, -query->error, text.data, text.length);
}

/* Answers all of the question and frees them, the first last: the query is the first's.
 */
static void askers_answer(struct memory_asker *first, uint64_t n_allocations)
{
	struct memory_asker *asker, *next;

	DL_FOREACH_SAFE (first, asker, next) {
		if (asker->wait)
			memory_used_answer(&first->query, asker, n_allocations);
		if (asker != first)
			free(asker);
	}
	free(first);
}

/*
 * Sends the next question unless one is at the mover. A question that can't be sent is
 * answered at once, within device_query(): then the loop goes on, and not the answer.
 */
static void question_send(struct broker *broker, struct memory_question *question)
{
	struct registry *registry = broker->registry;
	struct memory_asker *first;

	pthread_mutex_lock(&registry->lock);
	while (question->waiting && !question->asked && !question->sending) {
		first = take_ptr(question->waiting);
		question->asked = question->sending = true;
		pthread_mutex_unlock(&registry->lock);
		device_query(&first->query, &broker->processes->mover, first->devices);
		pthread_mutex_lock(&registry->lock);
		question->sending = false;
	}
	pthread_mutex_unlock(&registry->lock);
}

static void question_done(struct device_query *query)
{
	struct memory_asker *first = container_of(query, struct memory_asker, query);
	struct memory_question *question = first->question;
	struct broker *broker = first->broker;
	struct registry *registry = broker->registry;
	struct memory_asker *asker;
	uint64_t n_allocations;

	pthread_mutex_lock(&registry->lock);
	DL_FOREACH (first, asker) {
		asker->wait = completion_take(&asker->wait);
		share_give(asker->payer, SHARE_QUESTIONS, 1);
	}
	n_allocations = registry->n_allocations;
	question->asked = false;
	pthread_mutex_unlock(&registry->lock);
	askers_answer(first, n_allocations);
	question_send(broker, question);
}

/* Asks about devices [first, first + n). */
static void memory_used_start(struct broker *broker, const struct caller *caller,
			      struct memory_question *question, uint32_t first,
			      uint32_t n, struct completion *wait)
{
	struct registry *registry = broker->registry;
	struct memory_asker *asker = calloc(1, sizeof(*asker));
	bool space = question == &broker->questions->of_all;
	_cleanup_text_ struct text why = TEXT_INIT;
	char file[64];
	int r;

	if (!asker) {
		wait->done(wait, -ENOMEM, NULL, 0);
		return;
	}
	asker->space = space;
	asker->broker = broker;
	asker->question = question;
	asker->devices = ((1u << n) - 1) << first;
	asker->query.done = question_done;
	pthread_mutex_lock(&registry->lock);
	r = share_take_question(registry, caller, &asker->payer, &why);
	if (r == 0) {
		completion_hold(wait, &asker->wait, NULL);
		DL_APPEND(question->waiting, asker);
	}
	pthread_mutex_unlock(&registry->lock);
	if (r == 0) {
		question_send(broker, question);
		return;
	}
	free(asker);
	snprintf(file, sizeof(file), space ? "." : "devices/%u/memory_used_bytes", first);
	broker_fail(broker, caller, file, -r, "%s", text_string(&why));
	wait->done(wait, r, NULL, 0);
}

void broker_space(struct broker *broker, const struct caller *caller,
		  struct completion *wait)
{
	memory_used_start(broker, caller, &broker->questions->of_all, 0,
			  broker->registry->n_devices, wait);
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
		memory_used_start(broker, caller, &broker->questions->of_device[index],
				  index, 1, wait);
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
