/* SPDX-License-Identifier: MIT */
/*
 * Sends the request of an op to a worker: first announces unknown blocks, streams and
 * modules, then patches moved addresses. Interprets the reply and enforces the time
 * limit.
 */
#include "op/op.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/warning.h"
#include "cuda/result.h"
#include "model/allocation.h"
#include "model/journal.h"
#include "model/managed_ranges.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/stream.h"
#include "process/broker.h"
#include "process/checkpoint.h"
#include "process/output.h"
#include "process/processes.h"
#include "protocol/wire.h"

#define ASK_AT_MOST 3
#define SENDING_MS  30000 /* for the start of a worker, and loads of modules in it */

/* Limits the request to `now` bytes of `left`; the rest is sent afterwards. */
static void op_cut(struct op *op, uint64_t left, uint64_t now)
{
	op->request.record.length = now;
	op->rest = left - now;
}

/*
 * A copy by the GPU migrates managed memory from host to GPU. So the CPU copies pages
 * that are certain to be on the host. The request is cut where such pages begin or end,
 * and the rest is sent afterwards.
 */
static void op_spare_pages(struct op *op, const struct allocation *allocation)
{
	struct wire_request *request = &op->request.record;
	uint64_t offset = request->address - allocation->address;
	uint64_t length = request->length + op->rest;

	if (!op->broker->registry->device_at[allocation->device]->has_concurrent)
		return;
	op_cut(op, length, managed_alike(allocation->managed, offset, length));
	request->flags &= ~(uint32_t)WIRE_BY_CPU;
	if (managed_is_on_host(allocation->managed, offset, request->length))
		request->flags |= WIRE_BY_CPU;
}

/* Whether the request should leave managed memory where it is. */
static bool request_spares_pages(const struct wire_request *request)
{
	return request->op == WIRE_READ || request->op == WIRE_WRITE ||
	       (request->op == WIRE_FILL && request->flags & WIRE_STAY);
}

static bool request_is_gpus(const struct wire_request *request)
{
	return request->op == WIRE_FILL || request->op == WIRE_LAUNCH ||
	       request->op == WIRE_COPY || request->op == WIRE_FILE_LOAD ||
	       request->op == WIRE_FILE_SAVE ||
	       (request->op == WIRE_PREFETCH &&
		location_place((uint16_t)request->location) == LOCATION_DEVICE);
}

/*
 * Driver 580 skips some parts of a range if the parts have different advice and the range
 * begins inside a part. Requests part by part are carried out completely.
 */
static void op_place_alike(struct op *op, const struct allocation *allocation)
{
	const struct wire_request *request = &op->request.record;
	uint64_t offset = request->address - allocation->address;
	uint64_t length = request->length + op->rest, end;

	(void)managed_find(allocation->managed, offset, &end);
	op_cut(op, length, MIN(length, end - offset));
}

static void op_use_managed(struct op *op, const struct use *use)
{
	if (use->places)
		op_place_alike(op, use->allocation);
	if (request_spares_pages(&op->request.record))
		op_spare_pages(op, use->allocation);
	else if (request_is_gpus(&op->request.record))
		managed_leave_host(use->allocation->managed, use->offset, use->length);
}

/* Sends the part of the request that was cut off. */
static void op_ask_rest(struct op *op)
{
	struct wire_request *request = &op->request.record;

	request->address += request->length;
	if (request->op == WIRE_READ || request->op == WIRE_WRITE)
		request->offset += request->length;
	request->length = op->rest;
	op->rest = 0;
	op->n_asked = 0;
	op_request(op);
}

/* In a chain: the request that was held back is sent now, or refused. */
static void op_sent(struct request *request);

static void op_need_block(struct op *op, struct needed_block needed)
{
	op->needs.blocks[op->needs.n_blocks++] = needed;
}

/*
 * Of memory in two processes, which no process has, the needed one is the older: it has
 * ended, though its allocations are perhaps not marked as lost yet.
 */
static void op_need_epoch(struct op *op, uint32_t epoch)
{
	op->needs.epoch = op->needs.epoch ? MIN(op->needs.epoch, epoch) : epoch;
}

/*
 * Finds what the worker needs for the request. Under registry.lock. Returns: 0; -ERESTART
 * when the address in the request is out of date.
 */
int op_find_needs(struct op *op)
{
	const struct owner *of = op->worker->owner;
	struct stream *stream = op->work.stream;
	int r = 0;

	op->needs = (struct worker_needs){
		.blocks = op->needs.blocks,
		.image = op->image,
		.sent = op->work.sending ? op_sent : NULL,
	};
	for (unsigned int i = 0; i < op->work.n_uses; i++) {
		const struct use *use = &op->work.uses[i];
		struct allocation *allocation = use->allocation;

		if (op->only_use >= 0 && op->only_use != (int)i)
			continue;
		if (checkpoint_keeps(allocation) || use->address != allocation->address)
			r = -ERESTART;
		else if (allocation->managed)
			op_use_managed(op, use);
		if (allocation->block)
			op_need_block(op, (struct needed_block){
						  .block = allocation->block,
						  .guest = of && of != allocation->owner,
						  .writable = use->guest_writes,
						  .written = use->write,
					  });
		else if (of == allocation->owner)
			op_need_epoch(op, allocation->worker_epoch);
	}
	if (op->extra_block)
		op_need_block(op, (struct needed_block){ .block = op->extra_block });
	/*
	 * Only the owner's worker has the stream, on the stream's device. Elsewhere the
	 * broker alone keeps the order.
	 */
	if (stream && of == stream->owner &&
	    stream->device == op->request.record.device) {
		op->needs.stream = stream;
		op->request.record.stream = stream->wire_id;
	}
	return r;
}

/* Whether the process the op needed has ended while its managed memory is kept. */
static bool op_has_missed(struct op *op, uint32_t epoch)
{
	bool missed = false;

	pthread_mutex_lock(&op->broker->registry->lock);
	for (unsigned int i = 0; i < op->work.n_uses && epoch; i++) {
		struct allocation *allocation = op->work.uses[i].allocation;

		missed |= allocation->managed && allocation->state == ALLOCATION_LIVE &&
			  (checkpoint_keeps(allocation) ||
			   allocation->worker_epoch != epoch);
	}
	pthread_mutex_unlock(&op->broker->registry->lock);
	return missed;
}

/*
 * The process the op needed has ended. Lost allocations carry the reason themselves once
 * their loss is noted.
 */
static void op_fail_stale(struct op *op, const char *what)
{
	char reason[128];

	worker_end_reason(op->worker, reason, sizeof(reason));
	op_fail(op, ESTALE, "%s: the worker that held it %s", what, reason);
}

/*
 * An op in a chain was sent, or can't be sent (id 0). Its successors are sent now. The
 * reply may have come before this call.
 */
static void op_note_sent(struct op *op, uint64_t id)
{
	pthread_mutex_t *lock = &op->broker->registry->lock;
	struct work *work = NULL;
	bool answered;

	pthread_mutex_lock(lock);
	answered = order_sent(&op->work, id, &work);
	if (id && !op->work.ended)
		op_limit(op);
	else
		op_unlimit(op);
	if (answered)
		op_complete(op, op->error);
	else
		pthread_mutex_unlock(lock);
	op_start(op_list(work));
}

static void op_sent(struct request *request)
{
	op_note_sent(container_of(request, struct op, request), request->record.id);
}

/* The request can't be sent: ends the op, with a sentence. */
static void op_fail_unsent(struct op *op, int r)
{
	_cleanup_text_ struct text what = TEXT_INIT;

	op_describe(op, &what);
	if (r == -ESTALE)
		op_fail_stale(op, text_string(&what));
	else if (r == -ESHUTDOWN)
		op_fail(op, ESTALE, "%s did not run: the broker is shutting down",
			text_string(&what));
	else if (r == -EHOSTDOWN)
		op_fail(op, EIO,
			"%s: the worker of uid %u has failed again and again; writing 1 "
			"to owners/%u/reset tries anew",
			text_string(&what), op->worker->owner->uid,
			op->worker->owner->uid);
	else if (r == -EROFS)
		op_fail(op, EIO,
			"%s did not run: the worker of uid %u has the memory for reading "
			"only",
			text_string(&what), op->worker->owner->uid);
	else if (worker_lacks_means(r))
		op_fail(op, worker_start_errno(r), "%s: %s", text_string(&what),
			worker_lacks_means(r));
	else
		op_fail(op, EIO, "%s: the worker could not be asked: %s",
			text_string(&what), strerror(-r));
}

/* At the mover, which serves all users, the payers take turns. */
static void op_name_payer(struct op *op)
{
	struct wire_request *request = &op->request.record;

	if (op->worker == &op->broker->processes->mover && wire_op_has_payer(request->op))
		request->payer = op->payer->uid;
}

void op_submit(struct op *op)
{
	bool sending = op->work.sending, again = false;
	int r;

	op_name_payer(op);
	op->n_asked++;
	r = worker_send(op->worker, &op->needs, &op->request, &op->asked_epoch);
	/* The reply may have come by now: the op stays only while it is being sent. */
	if (r == WORKER_HELD || (r == 0 && !sending))
		return;
	if (r < 0) {
		again = r == -ESTALE && op->n_asked < ASK_AT_MOST &&
			op_has_missed(op, op->needs.epoch);
		if (!again)
			op_fail_unsent(op, r);
	}
	if (sending)
		op_note_sent(op, r == 0 ? op->request.record.id : 0);
	if (!again)
		return;
	/* A kernel has addresses in its arguments: its begin() writes them again. */
	op->asked_again = !op->class->kernel;
	op_start_again(op);
}

void op_request(struct op *op)
{
	int r;

	pthread_mutex_lock(&op->broker->registry->lock);
	r = op_find_needs(op);
	pthread_mutex_unlock(&op->broker->registry->lock);
	if (r == 0) {
		op_submit(op);
		return;
	}
	op->asked_again = true;
	op_start_again(op);
}

/*
 * Whether the op can run again: its memory is durable or being restored in the next
 * process.
 */
static bool op_can_repeat(const struct op *op)
{
	bool can =
		op->n_asked < ASK_AT_MOST &&
		(op->class->repeatable ||
		 (op->class->remakable && worker_gave_up(op->worker, op->asked_epoch)));

	pthread_mutex_lock(&op->broker->registry->lock);
	for (unsigned int i = 0; i < op->work.n_uses && can; i++) {
		struct allocation *allocation = op->work.uses[i].allocation;

		if (op->only_use >= 0 && op->only_use != (int)i)
			continue;
		can = allocation->block || checkpoint_keeps(allocation) ||
		      (allocation->managed && allocation->state == ALLOCATION_LIVE &&
		       allocation->worker_epoch != op->asked_epoch);
	}
	pthread_mutex_unlock(&op->broker->registry->lock);
	return can;
}

/*
 * A change to managed memory may have come during or after the checkpoint. Then the saved
 * data lacks the change, and the op counts as not done.
 */
static bool op_was_overtaken(const struct op *op)
{
	bool overtaken = false;

	if (!op->class->repeatable && !op->class->kernel)
		return false;
	for (unsigned int i = 0; i < op->work.n_uses && !overtaken; i++) {
		const struct use *use = &op->work.uses[i];
		struct allocation *allocation = use->allocation;

		if (op->only_use >= 0 && op->only_use != (int)i)
			continue;
		overtaken = (use->write || use->places) && allocation->managed &&
			    allocation->state == ALLOCATION_LIVE &&
			    (checkpoint_keeps(allocation) ||
			     allocation->worker_epoch != op->asked_epoch);
	}
	return overtaken;
}

/*
 * The worker has done the request: the op ends, unless a rest or the class goes on.
 * Returns: false when the result is lost with the process.
 */
static bool op_answered(struct op *op, const struct wire_reply *reply)
{
	bool overtaken;

	pthread_mutex_lock(&op->broker->registry->lock);
	overtaken = op_was_overtaken(op);
	if (!overtaken && op->class->note)
		op->class->note(op, reply);
	if (!overtaken && !op->rest && !op->class->answered) {
		op_complete(op, 0);
		return true;
	}
	pthread_mutex_unlock(&op->broker->registry->lock);
	if (overtaken)
		return false;
	if (op->rest)
		op_ask_rest(op);
	else
		op->class->answered(op, reply);
	return true;
}

/* The process has ended before the reply: runs the op again if that is possible. */
static void op_lost(struct op *op)
{
	_cleanup_text_ struct text what = TEXT_INIT;
	char reason[128];

	if (op_can_repeat(op)) {
		op->asked_again = true;
		op_start_again(op);
		return;
	}
	op_describe(op, &what);
	worker_end_reason(op->worker, reason, sizeof(reason));
	if (op->class->lost)
		op->class->lost(op, reason);
	else
		op_fail(op, EIO, "%s: the worker %s before it answered",
			text_string(&what), reason);
}

static void op_failed(struct op *op, const struct wire_reply *reply)
{
	_cleanup_text_ struct text what = TEXT_INIT;

	op->failure = (struct cuda_failure){ reply->call, reply->result };
	if (op->class->failed) {
		op->class->failed(op, reply);
		return;
	}
	op_describe(op, &what);
	text_add_call(&what, reply->call, reply->result);
	op_fail(op, reply->error, "%s failed: %s", text_string(&what),
		strerror(reply->error));
}

/*
 * A user may take over the own worker and have it send any reply: it is named as the
 * source, and others' warnings of the device are not counted with that user's.
 */
static void op_warn_device(const struct op *op, const struct wire_reply *reply)
{
	const struct owner *owner = op->worker->owner;
	const struct device *device =
		op->broker->registry->device_at[op->request.record.device];
	_cleanup_text_ struct text why = TEXT_INIT;
	char object[32], source[64] = "";

	text_add_call(&why, reply->call, reply->result);
	snprintf(object, sizeof(object), "devices/%u", device->index);
	if (owner)
		snprintf(source, sizeof(source), "the worker of uid %u says that ",
			 owner->uid);
	warnings_add(op->broker->journal->warnings, WARNING_DEVICE,
		     owner ? owner->uid : geteuid(), object,
		     "%sdevice %u (%s, %s) is gone or broken%s", source, device->index,
		     device->name, device->pci_bus_id, text_string(&why));
}

void op_replied(struct request *request, const struct wire_reply *reply, bool lost)
{
	struct op *op = container_of(request, struct op, request);

	if (!lost)
		worker_note_reply(op->worker);
	/* What a kernel printed would end with the broker as long as it is in the pipe. */
	if (!lost && op->class->kernel)
		output_drain(op->worker->owner->output);
	if (!lost && cuda_result_is_of_device(reply->result))
		op_warn_device(op, reply);
	/* The first reply to show lost contexts makes the broker give up the process. */
	if (!lost && cuda_result_is_sticky(reply->result)) {
		checkpoint_note_fault(op->broker, op->worker, op->asked_epoch,
				      request->record.device, reply);
		lost = !op->class->kernel;
	}
	if (!lost && reply->error)
		op_failed(op, reply);
	else if (reply->error == EMFILE || reply->error == ENFILE)
		op_fail_unsent(op, -reply->error);
	else if (lost || !op_answered(op, reply))
		op_lost(op);
}

/* ---- time limits ---- */

static void op_passed(struct deadline *deadline)
{
	struct op *op = container_of(deadline, struct op, deadline);
	uint32_t epoch = op->work.sending ? worker_epoch(op->worker) : op->asked_epoch;

	if (!epoch) {
		deadline_set(op->broker, deadline, 1, op_passed);
		return;
	}
	op->timed_out = true;
	checkpoint_begin(op->broker, op->worker, epoch,
			 "was ended: a kernel ran longer than its time limit", EIO, NULL);
}

/* An op that is being sent has the time that announcements take, beside its own. */
void op_limit(struct op *op)
{
	if (op->limit_ms)
		deadline_set(op->broker, &op->deadline,
			     op->limit_ms + (op->work.sending ? SENDING_MS : 0),
			     op_passed);
}

void op_unlimit(struct op *op)
{
	deadline_clear(op->broker, &op->deadline);
}
