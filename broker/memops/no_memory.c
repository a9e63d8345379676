/* SPDX-License-Identifier: MIT */
#include "memops/no_memory.h"

#include <errno.h>
#include <stdio.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/number.h"
#include "base/subordinates.h"
#include "memops/allocate.h"
#include "memops/lease.h"
#include "memops/spare_blocks.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "op/op.h"
#include "process/processes.h"

/*
 * A request waits for reclaimed memory this many times the time limit of workers for
 * giving memory back.
 */
#define PARKED_GIVE_BACKS 3
#define WAKE_MS		  900 /* at least, between rounds without a free */

static void alloc_request_told_free(struct request *request,
				    const struct wire_reply *reply, bool lost)
{
	struct alloc_request *alloc =
		container_of(request, struct alloc_request, request);
	struct allocation *allocation = alloc->allocation;
	_cleanup_text_ struct text text = TEXT_INIT;

	/* Managed memory may exceed the device: free bytes explain nothing. */
	if (lost || reply->error || allocation->managed) {
		alloc_request_failed_call(alloc, ENOMEM);
		return;
	}
	text_printf(&text, "allocation %s of %s: device %u has %s free of %s",
		    alloc_request_name(alloc).text, size_text(allocation->size),
		    allocation->device, size_text(reply->value[0]),
		    size_text(reply->value[1]));
	text_add_call(&text, alloc->failure.call, alloc->failure.result);
	if (alloc->waited && alloc->patient)
		text_printf(&text, "; none has come within %g s",
			    alloc->patience_ms / 1000.0);
	else if (alloc->waited)
		text_printf(&text,
			    "; memory that was freed has not come back within %g s",
			    alloc_request_parked_ms(alloc) / 1000.0);
	pthread_mutex_lock(&alloc->broker->registry->lock);
	text_add_held(&text, alloc->broker->reclaim, allocation->device);
	text_add_lease_holders(&text, alloc->broker, allocation->device);
	pthread_mutex_unlock(&alloc->broker->registry->lock);
	alloc_request_failed(alloc, ENOMEM, text_string(&text));
}

static void alloc_request_ask_free(struct alloc_request *alloc)
{
	const struct worker_needs none = { 0 };
	uint32_t epoch;

	if (alloc->allocation->kind == KIND_HOST) {
		alloc_request_failed_call(alloc, ENOMEM);
		return;
	}

	alloc->request = (struct request){
		.record = { .op = WIRE_MEMORY, .device = alloc->allocation->device },
		.fd = -1,
		.done = alloc_request_told_free,
	};
	pthread_mutex_lock(&alloc->broker->registry->lock);
	alloc_request_waits(alloc);
	pthread_mutex_unlock(&alloc->broker->registry->lock);
	if (worker_send(&alloc->broker->processes->mover, &none, &alloc->request,
			&epoch) < 0)
		alloc_request_failed_call(alloc, ENOMEM);
}

static void alloc_request_give_up(struct task *task)
{
	struct alloc_request *alloc = container_of(task, struct alloc_request, task);

	if (alloc->beyond)
		alloc_request_start(alloc);
	else
		alloc_request_ask_free(alloc);
}

static void alloc_request_passed(struct deadline *deadline)
{
	struct alloc_request *alloc =
		container_of(deadline, struct alloc_request, deadline);
	struct broker *broker = alloc->broker;

	reclaim_leave(broker->reclaim, &alloc->waiter);
	alloc_request_waits(alloc);
	alloc->waited = true;
	alloc_request_run(alloc, alloc_request_give_up);
}

static void alloc_request_try(struct task *task)
{
	alloc_request_start(container_of(task, struct alloc_request, task));
}

/* Memory may have been reclaimed. */
static void alloc_request_retry(struct reclaim_waiter *waiter)
{
	struct alloc_request *alloc = container_of(waiter, struct alloc_request, waiter);

	deadline_clear(alloc->broker, &alloc->deadline);
	alloc_request_waits(alloc);
	alloc_request_run(alloc, alloc_request_try);
}

uint32_t alloc_request_parked_ms(const struct alloc_request *alloc)
{
	uint32_t most = alloc->broker->ops->give_back_ms * PARKED_GIVE_BACKS;

	return alloc->patient ? MIN(alloc->patience_ms, most) : most;
}

void alloc_request_wait_no_more(struct alloc_request *alloc)
{
	queue_leave(alloc->broker->reclaim, &alloc->place);
	reclaim_leave(alloc->broker->reclaim, &alloc->waiter);
	deadline_clear(alloc->broker, &alloc->deadline);
}

/* Returns: 0; -EBUSY when the owner has as many waiting as one may. */
static int alloc_request_pay_wait(struct alloc_request *alloc)
{
	int r = alloc->pays_wait ? 0
				 : share_take(alloc->allocation->owner, SHARE_WAITS, 1);

	alloc->pays_wait = r == 0;
	return r;
}

/* A signal: the name is free again when the line is answered. Under registry.lock. */
static int alloc_request_parked_interrupted(struct completion **holder)
{
	struct alloc_request *alloc =
		container_of(holder, struct alloc_request, completion);

	alloc_request_drop(alloc);
	return -EINTR;
}

int alloc_request_park(struct alloc_request *alloc, struct reclaim_from from)
{
	struct broker *broker = alloc->broker;
	int64_t now = clock_ms();

	alloc->waiter = (struct reclaim_waiter){
		.from = from,
		.owner = alloc->allocation->owner,
		.size = alloc->allocation->size,
		.n_arrived = from.owner ? alloc->n_own_arrived : alloc->n_arrived,
		.retry = alloc_request_retry,
	};
	if (!reclaim_is_worth_waiting(broker->reclaim, &alloc->waiter) ||
	    !alloc->completion || !alloc_request_parked_ms(alloc))
		return 0;
	if (!alloc->wait_until_ms)
		alloc->wait_until_ms = now + alloc_request_parked_ms(alloc);
	if (now >= alloc->wait_until_ms) {
		alloc->waited = true;
		return 0;
	}
	if (alloc_request_pay_wait(alloc) < 0)
		return -EBUSY;
	alloc->completion->began = true;
	completion_hold(alloc->completion, &alloc->completion,
			alloc_request_parked_interrupted);
	deadline_set(broker, &alloc->deadline, (uint32_t)(alloc->wait_until_ms - now),
		     alloc_request_passed);
	if (reclaim_wait(broker->reclaim, &alloc->waiter) == 0)
		return 1;
	deadline_clear(broker, &alloc->deadline);
	alloc_request_waits(alloc);
	return 0;
}

/* ---- queues ---- */

static void alloc_request_turn(struct queue_place *place)
{
	alloc_request_run(container_of(place, struct alloc_request, place),
			  alloc_request_try);
}

/* A signal: the name is free again when the line is answered. Under registry.lock. */
static int alloc_request_interrupted(struct completion **holder)
{
	struct alloc_request *alloc =
		container_of(holder, struct alloc_request, completion);

	if (!queue_is_trying(&alloc->place))
		alloc_request_drop(alloc);
	return -EINTR;
}

/* A request that tries just now gives up when it fails. Under registry.lock. */
static void alloc_request_too_late(struct deadline *deadline)
{
	struct alloc_request *alloc =
		container_of(deadline, struct alloc_request, deadline);

	alloc->waited = true;
	if (queue_is_trying(&alloc->place))
		return;
	queue_leave(alloc->broker->reclaim, &alloc->place);
	/* A signal must not drop the request, which is in no queue any more. */
	completion_seal(alloc->completion);
	alloc_request_run(alloc, alloc_request_give_up);
}

/* The first try has failed. Under registry.lock. */
static void alloc_request_join(struct alloc_request *alloc)
{
	struct broker *broker = alloc->broker;
	int64_t now = clock_ms();

	if (!alloc->patient_until_ms)
		alloc->patient_until_ms = now + alloc->patience_ms;
	alloc->place = (struct queue_place){
		.place = allocation_place(alloc->allocation),
		.size = alloc->allocation->size,
		.user = subordinates_user(broker->registry->subordinates,
					  alloc->allocation->owner->uid),
		.retry = alloc_request_turn,
		.apart = !kind_is_durable((enum allocation_kind)alloc->allocation->kind),
	};
	deadline_set(broker, &alloc->deadline,
		     (uint32_t)MAX(alloc->patient_until_ms - now, 0),
		     alloc_request_too_late);
	queue_join(broker->reclaim, &alloc->place);
}

/*
 * Lets the request wait, at first or again. Returns: 0; -ENOMEM when it waits no more;
 * -EBUSY when the owner has as many waiting as one may.
 */
static int alloc_request_queue_up(struct alloc_request *alloc, struct text *why)
{
	struct broker *broker = alloc->broker;
	uint32_t place = allocation_place(alloc->allocation);
	bool again = broker->reclaim->n_arrived[place] != alloc->n_arrived;

	if (!alloc->completion || alloc->waited || !alloc->patience_ms ||
	    broker->registry->shutting_down)
		return -ENOMEM;
	if (alloc_request_pay_wait(alloc) < 0) {
		share_explain(alloc->allocation->owner, why);
		return -EBUSY;
	}
	completion_hold(alloc->completion, &alloc->completion, alloc_request_interrupted);
	alloc->completion->began = true;
	if (alloc->place.joined) {
		queue_tried(broker->reclaim, &alloc->place);
		return 0;
	}
	alloc_request_join(alloc);
	if (again)
		queue_wake(broker->reclaim, place);
	return 0;
}

static void alloc_request_be_patient(struct alloc_request *alloc)
{
	struct broker *broker = alloc->broker;
	_cleanup_text_ struct text why = TEXT_INIT;
	bool ending;
	int r;

	pthread_mutex_lock(&broker->registry->lock);
	ending = broker->registry->shutting_down;
	r = alloc_request_queue_up(alloc, &why);
	if (r < 0)
		alloc_request_wait_no_more(alloc);
	pthread_mutex_unlock(&broker->registry->lock);
	if (r == -EBUSY)
		alloc_request_failed_share(alloc, EBUSY, text_string(&why));
	else if (r < 0 && ending)
		alloc_request_failed(alloc, ESTALE, "the broker is shutting down");
	else if (r < 0)
		alloc_request_ask_free(alloc);
}

void alloc_queues_wake(struct broker *broker)
{
	int64_t now = clock_ms();

	pthread_mutex_lock(&broker->registry->lock);
	if (broker->reclaim->n_queued && now - broker->reclaim->woken_ms >= WAKE_MS) {
		broker->reclaim->woken_ms = now;
		for (uint32_t i = 0; i < N_PLACES; i++)
			queue_wake(broker->reclaim, i);
	}
	pthread_mutex_unlock(&broker->registry->lock);
}

static void alloc_request_ended(struct task *task)
{
	alloc_request_failed(container_of(task, struct alloc_request, task), ESTALE,
			     "the broker is shutting down");
}

void alloc_queues_end(struct broker *broker)
{
	struct queue_place *place, *safe;

	pthread_mutex_lock(&broker->registry->lock);
	for (uint32_t i = 0; i < N_PLACES; i++) {
		DL_FOREACH_SAFE (broker->reclaim->queues[i].places, place, safe) {
			struct alloc_request *alloc =
				container_of(place, struct alloc_request, place);

			/* A request that tries just now finds out when it fails. */
			if (queue_is_trying(place))
				continue;
			alloc_request_wait_no_more(alloc);
			completion_seal(alloc->completion);
			alloc_request_run(alloc, alloc_request_ended);
		}
	}
	pthread_mutex_unlock(&broker->registry->lock);
}

/* ---- without room ---- */

/* Host memory has no known end. */
static bool alloc_request_will_never_fit(const struct alloc_request *alloc)
{
	const struct allocation *allocation = alloc->allocation;
	const struct registry *registry = alloc->broker->registry;

	return allocation->kind != KIND_HOST &&
	       allocation->size > registry->device_at[allocation->device]->memory_total;
}

/* Only the driver's answer to the broker counts: users may have their worker say
 * anything.
 */
static void alloc_request_tried(struct alloc_request *alloc)
{
	const struct allocation *allocation = alloc->allocation;
	struct reclaim *reclaim = alloc->broker->reclaim;

	pthread_mutex_lock(&alloc->broker->registry->lock);
	if (kind_is_durable((enum allocation_kind)allocation->kind))
		reclaim_failed(reclaim, allocation_place(allocation), allocation->size,
			       alloc->n_arrived);
	reclaim_leave(reclaim, &alloc->waiter);
	pthread_mutex_unlock(&alloc->broker->registry->lock);
}

void alloc_request_no_memory(struct alloc_request *alloc)
{
	struct broker *broker = alloc->broker;
	const struct reclaim_from from = { allocation_place(alloc->allocation), NULL };
	_cleanup_text_ struct text why = TEXT_INIT;
	int parked;

	alloc_request_tried(alloc);
	spare_blocks_give_back_at(broker, from.place);
	if (alloc_request_will_never_fit(alloc)) {
		alloc_request_ask_free(alloc);
		return;
	}
	if (alloc->patient) {
		alloc_request_be_patient(alloc);
		return;
	}

	pthread_mutex_lock(&broker->registry->lock);
	parked = alloc_request_park(alloc, from);
	if (parked < 0)
		share_explain(alloc->allocation->owner, &why);
	pthread_mutex_unlock(&broker->registry->lock);
	if (parked < 0)
		alloc_request_failed_share(alloc, EBUSY, text_string(&why));
	else if (parked == 0)
		alloc_request_ask_free(alloc);
}
