/* SPDX-License-Identifier: MIT */
#include "process/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/text.h"
#include "cuda/failure.h"
#include "cuda/result.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/location.h"
#include "model/managed_ranges.h"
#include "model/registry.h"
#include "model/save.h"
#include "model/stream.h"
#include "process/checkpoint.h"
#include "process/processes.h"

#define RESTORE_TRIES 3	 /* attempts refused by the driver */
#define RESTORE_RUNS  64 /* processes that end meanwhile */

/* Steps for a range, in this order. */
enum {
	STEP_READ_MOSTLY,
	STEP_PREFERRED,
	STEP_ACCESSED_BY,			 /* by device 0, 1, ... */
	STEP_PREFETCHED = STEP_ACCESSED_BY + 17, /* the last bit is the CPU */
	N_STEPS,
};

static void restore_go_on(struct restore *restore);

/* ---- after the last stage ---- */

/* Returns: the parked works. Under registry.lock. */
static struct work *allocation_resume(struct allocation *allocation)
{
	allocation->restoring = false;
	if (allocation->state == ALLOCATION_LIVE)
		allocation_join_worker(allocation);
	return take_ptr(allocation->managed->parked);
}

/* Returns: false when the new process has ended; nothing was changed then. */
static bool saved_set_address(struct restore *restore)
{
	struct broker *broker = restore->broker;
	struct saved *saved = &restore->saved[restore->at];
	struct allocation *allocation = saved->allocation;
	struct work *parked;

	pthread_mutex_lock(&broker->registry->lock);
	if (worker_epoch(restore->worker) != restore->new_epoch) {
		pthread_mutex_unlock(&broker->registry->lock);
		return false;
	}
	allocation->address = restore->new_address;
	allocation->worker_epoch = restore->new_epoch;
	/* The prefetches may have moved parts off the host. */
	managed_leave_host(allocation->managed, 0, allocation->size);
	allocation->pointer_generation++;
	allocation_save(allocation);
	if (allocation->state == ALLOCATION_LIVE)
		journal_event(broker->journal,
			      "restore allocations/%s id=%llu generation=%u",
			      allocation_name(allocation).text,
			      (unsigned long long)allocation->id,
			      allocation->pointer_generation);
	parked = allocation_resume(allocation);
	pthread_mutex_unlock(&broker->registry->lock);
	broker->processes->resume(parked);
	return true;
}

static void saved_lose(struct restore *restore)
{
	struct broker *broker = restore->broker;
	struct allocation *allocation = restore->saved[restore->at].allocation;
	struct work *parked;
	char why[2 * sizeof(restore->why_not) + 16];
	struct loss loss = { 0 };

	snprintf(why, sizeof(why), "%s, and it %s", restore->reason, restore->why_not);
	pthread_mutex_lock(&broker->registry->lock);
	worker_lose_allocation(broker, allocation, why, &loss);
	loss_tell(broker, restore->worker->owner, &loss, why);
	parked = allocation_resume(allocation);
	pthread_mutex_unlock(&broker->registry->lock);
	broker->processes->resume(parked);
}

/* ---- restoring ---- */

/* The process ended during the restore: tries the next process. */
static void restore_in_next_run(struct restore *restore)
{
	snprintf(restore->why_not, sizeof(restore->why_not),
		 "could not be made anew, as worker after worker ended");
	restore->stage = ++restore->n_runs < RESTORE_RUNS ? STAGE_ALLOC : STAGE_LOST;
}

/* The process refused, or could not be started: tries again. */
static void restore_again(struct restore *restore, int call, int result)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	text_printf(&text, "could not be made anew");
	text_add_call(&text, call, result);
	snprintf(restore->why_not, sizeof(restore->why_not), "%s", text_string(&text));
	restore->stage = ++restore->n_tries < RESTORE_TRIES ? STAGE_ALLOC : STAGE_LOST;
}

/* Fills the request of a step. Returns: whether the range has this property. */
static bool step_fill_request(const struct managed_range *range, unsigned int step,
			      struct wire_request *request)
{
	unsigned int bit = step - STEP_ACCESSED_BY;

	request->op = WIRE_ADVISE;
	switch (step) {
	case STEP_READ_MOSTLY:
		request->advice = WIRE_SET_READ_MOSTLY;
		return range->read_mostly;
	case STEP_PREFERRED:
		request->advice = WIRE_SET_PREFERRED_LOCATION;
		request->location = range->preferred;
		return range->preferred;
	case STEP_PREFETCHED:
		request->op = WIRE_PREFETCH;
		request->location = range->prefetched;
		return range->prefetched;
	default:
		request->advice = WIRE_SET_ACCESSED_BY;
		request->location = 1u << bit == LOCATION_SET_CPU
					    ? location_make(LOCATION_CPU, 0)
					    : location_make(LOCATION_DEVICE, bit);
		return range->accessed_by >> bit & 1;
	}
}

/* Finds the next advice of the allocation. Returns: false when there is no more. */
static bool restore_fill_advice(struct restore *restore)
{
	const struct allocation *allocation = restore->saved[restore->at].allocation;
	const struct managed *managed = allocation->managed;
	bool any = false;

	pthread_mutex_lock(&restore->broker->registry->lock);
	while (!any && restore->range < managed->n_ranges) {
		const struct managed_range *range = &managed->ranges[restore->range];
		uint64_t end = restore->range + 1 < managed->n_ranges ? range[1].offset
								      : managed->size;

		restore->request.record = (struct wire_request){
			.address = restore->new_address + range->offset,
			.length = end - range->offset,
		};
		any = step_fill_request(range, restore->step, &restore->request.record);
		/* Advice about a device needs the device's context to take effect. */
		restore->request.record.device = location_device(
			(uint16_t)restore->request.record.location, allocation->device);
		if (++restore->step == N_STEPS) {
			restore->step = 0;
			restore->range++;
		}
	}
	pthread_mutex_unlock(&restore->broker->registry->lock);
	return any;
}

/* Returns: whether this stage needs a request. */
static bool restore_fill_request(struct restore *restore, struct worker_needs *needs)
{
	const struct saved *saved = &restore->saved[restore->at];
	const struct allocation *allocation = saved->allocation;
	enum managed_attach attach = allocation->managed->attach;

	switch (restore->stage) {
	case STAGE_ALLOC:
		restore->range = restore->step = 0;
		restore->request.record = (struct wire_request){
			.op = WIRE_ALLOC,
			.flags = WIRE_MANAGED |
				 (attach == ATTACH_HOST ? WIRE_ATTACH_HOST : 0),
			.device = allocation->device,
			.length = allocation->size,
		};
		return true;
	case STAGE_FILL:
		restore->request.fd = fcntl(restore->fd, F_DUPFD_CLOEXEC, 3);
		restore->request.record = (struct wire_request){
			.op = WIRE_RESTORE,
			.address = restore->new_address,
			.length = allocation->size,
			.source = saved->offset,
		};
		return true;
	case STAGE_ATTACH:
		if (attach != ATTACH_SINGLE || !allocation->stream)
			return false;
		needs->stream = allocation->stream;
		restore->request.record = (struct wire_request){
			.op = WIRE_ATTACH,
			.flags = WIRE_ATTACH_STREAM,
			.device = allocation->device,
			.address = restore->new_address,
			.stream = allocation->stream->wire_id,
		};
		return true;
	case STAGE_ADVISE:
		return restore_fill_advice(restore);
	case STAGE_NEXT:
	case STAGE_DONE:
	case STAGE_LOST:
		break;
	}
	return false;
}

static void restore_replied(struct request *request, const struct wire_reply *reply,
			    bool lost)
{
	struct restore *restore = container_of(request, struct restore, request);

	/* Refused advice is skipped, for instance for a device that is gone. */
	if (!lost && cuda_result_is_sticky(reply->result)) {
		checkpoint_note_fault(restore->broker, restore->worker,
				      restore->new_epoch, request->record.device, reply);
		lost = true;
	}
	if (lost) {
		restore_in_next_run(restore);
	} else if (reply->error && restore->stage < STAGE_ATTACH) {
		restore_again(restore, reply->call, reply->result);
	} else {
		if (restore->stage == STAGE_ALLOC)
			restore->new_address = reply->value[0];
		if (restore->stage != STAGE_ADVISE)
			restore->stage++;
	}
	restore_go_on(restore);
}

/* Sends the next request for the current allocation. Returns: false when none is sent. */
static bool restore_ask(struct restore *restore)
{
	struct worker_needs needs = { 0 };
	int r;

	restore->request.fd = -1;
	restore->request.done = restore_replied;
	while (restore->stage < STAGE_DONE && !restore_fill_request(restore, &needs))
		restore->stage++;
	if (restore->stage >= STAGE_DONE)
		return false;
	if (restore->stage != STAGE_ALLOC)
		needs.epoch = restore->new_epoch;
	r = worker_send(restore->worker, &needs, &restore->request, &restore->new_epoch);
	if (r >= 0)
		return true;
	closep(&restore->request.fd);
	if (r == -ESTALE)
		restore_in_next_run(restore);
	else
		restore_again(restore, -1, 0);
	return false;
}

/* Goes on until a request is sent or all allocations are done. */
static void restore_go_on(struct restore *restore)
{
	while (restore->at < restore->n_saved) {
		if (restore->stage == STAGE_NEXT) {
			bool good = restore->saved[restore->at].good;

			restore->n_tries = restore->n_runs = 0;
			restore->stage = good ? STAGE_ALLOC : STAGE_LOST;
			snprintf(restore->why_not, sizeof(restore->why_not),
				 "could not be written out");
		}
		if (restore->stage < STAGE_DONE && restore_ask(restore))
			return;
		if (restore->stage < STAGE_DONE)
			continue;
		if (restore->stage == STAGE_DONE && !saved_set_address(restore)) {
			restore_in_next_run(restore);
			continue;
		}
		if (restore->stage == STAGE_LOST)
			saved_lose(restore);
		restore->stage = STAGE_NEXT;
		restore->at++;
	}
	restore->done(restore);
}

void restore_begin(struct restore *restore)
{
	restore->at = 0;
	restore->stage = STAGE_NEXT;
	restore_go_on(restore);
}
