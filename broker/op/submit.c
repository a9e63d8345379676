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

#include "base/clock.h"
#include "model/managed_ranges.h"
#include "process/checkpoint.h"

#define ASK_AT_MOST 3
#define SENDING_MS  1000 /* time allowed for sending after the limit has passed */

/* Limits the request to `now` bytes of `left`; the rest is sent afterwards. */
static void op_cut(struct op *op, uint64_t left, uint64_t now)
{
	op->ask.request.length = now;
	op->rest = left - now;
}

/*
 * A copy by the GPU migrates managed memory from host to GPU. So the CPU copies pages
 * that are certain to be on the host. The request is cut where such pages begin or end,
 * and the rest is sent afterwards.
 */
static void op_spare_pages(struct op *op, const struct allocation *allocation)
{
	struct wire_request *request = &op->ask.request;
	uint64_t offset = request->address - allocation->address;
	uint64_t length = request->length + op->rest;

	if (!op->broker->registry.device_at[allocation->device]->has_concurrent)
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
	       request->op == WIRE_COPY ||
	       (request->op == WIRE_PREFETCH &&
		location_place((uint16_t)request->location) == LOCATION_DEVICE);
}

/*
 * Driver 580 skips some parts of a range if the parts have different advice and the range
 * begins inside a part. Requests part by part are carried out completely.
 */
static void op_place_alike(struct op *op, const struct allocation *allocation)
{
	const struct wire_request *request = &op->ask.request;
	uint64_t offset = request->address - allocation->address;
	uint64_t length = request->length + op->rest, end;

	(void)managed_find(allocation->managed, offset, &end);
	op_cut(op, length, MIN(length, end - offset));
}

static void op_use_managed(struct op *op, const struct use *use)
{
	if (use->places)
		op_place_alike(op, use->allocation);
	if (request_spares_pages(&op->ask.request))
		op_spare_pages(op, use->allocation);
	else if (request_is_gpus(&op->ask.request))
		managed_leave_host(use->allocation->managed, use->offset, use->length);
}

/* Returns: whether there was a rest, which is then sent. */
static bool op_ask_rest(struct op *op)
{
	struct wire_request *request = &op->ask.request;

	if (!op->rest)
		return false;
	request->address += request->length;
	if (request->op == WIRE_READ || request->op == WIRE_WRITE)
		request->offset += request->length;
	request->length = op->rest;
	op->rest = 0;
	op->n_asked = 0;
	op_ask_with(op, op->extra_block);
	return true;
}

/* Returns: 0; -ERESTART when the address in the request is out of date. */
static int op_needs(struct op *op, struct worker_needs *needs)
{
	int r = 0;

	pthread_mutex_lock(&op->broker->registry.lock);
	for (unsigned int i = 0; i < op->work.n_uses; i++) {
		const struct use *use = &op->work.uses[i];
		const struct allocation *allocation = use->allocation;
		const struct owner *of = op->worker->owner;

		if (op->only_use >= 0 && op->only_use != (int)i)
			continue;
		if (allocation->restoring || use->address != allocation->address)
			r = -ERESTART;
		else if (allocation->managed)
			op_use_managed(op, use);
		if (allocation->block)
			needs->blocks[needs->n_blocks++] = (struct needed_block){
				.block = allocation->block,
				.guest = of && of != allocation->owner,
				.writable = use->guest_writes,
			};
		else if (of == allocation->owner)
			needs->epoch = allocation->worker_epoch;
	}
	pthread_mutex_unlock(&op->broker->registry.lock);
	/*
	 * Only the owner's worker has the stream, on the stream's device. Elsewhere the
	 * broker alone keeps the order.
	 */
	if (op->work.stream && op->worker->owner == op->work.stream->owner &&
	    op->work.stream->device == op->ask.request.device) {
		needs->stream = op->work.stream;
		op->ask.request.stream = op->work.stream->wire_id;
	}
	return r;
}

/* Whether the process the op needed has ended while its managed memory is kept. */
static bool op_has_missed(struct op *op, uint32_t epoch)
{
	bool missed = false;

	pthread_mutex_lock(&op->broker->registry.lock);
	for (unsigned int i = 0; i < op->work.n_uses && epoch; i++) {
		const struct allocation *allocation = op->work.uses[i].allocation;

		missed |= allocation->managed && allocation->state == ALLOCATION_LIVE &&
			  (allocation->restoring || allocation->worker_epoch != epoch);
	}
	pthread_mutex_unlock(&op->broker->registry.lock);
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
	struct work *work = NULL;
	bool over;

	pthread_mutex_lock(&op->broker->registry.lock);
	over = order_sent(&op->work, id, &work);
	pthread_mutex_unlock(&op->broker->registry.lock);
	op_start(op_list(work));
	if (over)
		op_done(op, op->error);
}

static void op_sent(struct ask *ask)
{
	op_note_sent(container_of(ask, struct op, ask), ask->request.id);
}

int op_ask(struct op *op)
{
	return op_ask_with(op, NULL);
}

int op_ask_with(struct op *op, struct block *block)
{
	_cleanup_text_ struct text what = TEXT_INIT;
	_cleanup_free_ struct needed_block *many = NULL;
	struct needed_block few[WORK_USES_ROOM + 1];
	struct worker_needs needs = {
		.blocks = few,
		.image = op->image,
		.sent = op->work.sending ? op_sent : NULL,
	};
	int r = 0;

	if (op->work.n_uses > WORK_USES_ROOM) {
		many = calloc(op->work.n_uses + 1, sizeof(*many));
		needs.blocks = many;
		if (!many)
			r = -ENOMEM;
	}
	op->extra_block = block;
	if (r == 0)
		r = op_needs(op, &needs);
	if (r == 0) {
		if (block)
			needs.blocks[needs.n_blocks++] =
				(struct needed_block){ .block = block };
		op->n_asked++;
		r = worker_ask(op->worker, &needs, &op->ask, &op->asked_epoch);
	}
	if (r >= 0)
		return r;
	if (r == -ESTALE && op->n_asked < ASK_AT_MOST && op_has_missed(op, needs.epoch))
		r = -ERESTART;
	if (r == -ERESTART) {
		/*
		 * A kernel has addresses in its arguments: op_send() calls run() again.
		 */
		op->asked_again = !op->class->kernel;
		op->next_ready = NULL;
		if (op->asked_again)
			op_start(op);
		return r;
	}
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
	else
		op_fail(op, EIO, "%s: the worker could not be asked: %s",
			text_string(&what), strerror(-r));
	return r;
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

	pthread_mutex_lock(&op->broker->registry.lock);
	for (unsigned int i = 0; i < op->work.n_uses && can; i++) {
		const struct allocation *allocation = op->work.uses[i].allocation;

		can = allocation->block || allocation->restoring ||
		      (allocation->managed && allocation->state == ALLOCATION_LIVE &&
		       allocation->worker_epoch != op->asked_epoch);
	}
	pthread_mutex_unlock(&op->broker->registry.lock);
	return can;
}

/*
 * A change to managed memory may have come during or after the checkpoint. Then the saved
 * data lacks the change, and the op counts as not done. Otherwise note() is called.
 */
static bool op_was_overtaken(struct op *op)
{
	bool overtaken = false;

	if (!op->class->repeatable && !op->class->kernel)
		return false;
	pthread_mutex_lock(&op->broker->registry.lock);
	for (unsigned int i = 0; i < op->work.n_uses && !overtaken; i++) {
		const struct use *use = &op->work.uses[i];
		const struct allocation *allocation = use->allocation;

		overtaken = (use->write || use->places) && allocation->managed &&
			    allocation->state == ALLOCATION_LIVE &&
			    (allocation->restoring ||
			     allocation->worker_epoch != op->asked_epoch);
	}
	if (!overtaken && op->class->note)
		op->class->note(op);
	pthread_mutex_unlock(&op->broker->registry.lock);
	return overtaken;
}

void op_replied(struct ask *ask, const struct wire_reply *reply, bool lost)
{
	struct op *op = container_of(ask, struct op, ask);
	_cleanup_text_ struct text what = TEXT_INIT;
	char reason[128];

	if (!lost)
		worker_forgive(op->worker);
	/* The first reply to show lost contexts makes the broker give up the process. */
	if (!lost && cuda_result_is_sticky(reply->result)) {
		rescue_note_fault(op->broker, op->worker, op->asked_epoch, reply);
		lost = !op->class->kernel;
	}
	if (!lost && !reply->error)
		lost = op_was_overtaken(op);
	if (lost && op_can_repeat(op)) {
		op->asked_again = true;
		op->next_ready = NULL;
		op_start(op);
	} else if (lost) {
		op_describe(op, &what);
		worker_end_reason(op->worker, reason, sizeof(reason));
		if (op->class->lost)
			op->class->lost(op, reason);
		else
			op_fail(op, EIO, "%s: the worker %s before it answered",
				text_string(&what), reason);
	} else if (reply->error && op->class->failed) {
		op->failure = (struct cuda_failure){ reply->call, reply->result };
		op->class->failed(op, reply);
	} else if (reply->error) {
		op->failure = (struct cuda_failure){ reply->call, reply->result };
		op_describe(op, &what);
		text_add_call(&what, reply->call, reply->result);
		op_fail(op, reply->error, "%s failed: %s", text_string(&what),
			strerror(reply->error));
	} else if (op_ask_rest(op)) {
		return;
	} else if (op->class->answered) {
		op->class->answered(op, reply);
	} else {
		op_done(op, 0);
	}
}

/* ---- time limits ---- */

/*
 * Epoch of the process the op is being sent to; 0: not known yet. An op still unsent long
 * after its limit waits for announcements: the running process has not answered them.
 */
static uint32_t op_sending_epoch(struct op *op)
{
	if (!op->overdue_ms)
		op->overdue_ms = clock_ms();
	return clock_ms() - op->overdue_ms < SENDING_MS ? 0 : worker_epoch(op->worker);
}

static void op_passed(struct deadline *deadline)
{
	struct op *op = container_of(deadline, struct op, deadline);
	uint32_t epoch = op->work.sending ? op_sending_epoch(op) : op->asked_epoch;

	if (!epoch) {
		deadline_set(op->broker, deadline, 1, op_passed);
		return;
	}
	op->timed_out = true;
	rescue_begin(op->broker, op->worker, epoch,
		     "was ended: a kernel ran longer than its time limit", EIO, NULL);
}

/* Starts the time limit. Under registry.lock. */
static void op_limit(struct op *op)
{
	if (op->limit_ms)
		deadline_set(op->broker, &op->deadline, op->limit_ms, op_passed);
}

void op_unlimit(struct op *op)
{
	deadline_clear(op->broker, &op->deadline);
}

/* ---- in a chain ---- */

/*
 * Sends the request of an op in a chain. While the request is held back the op counts as
 * being sent, and op_sent() is called later.
 */
void op_send(struct op *op)
{
	struct broker *broker = op->broker;
	int r;

	pthread_mutex_lock(&broker->registry.lock);
	order_sending(&op->work);
	op_limit(op);
	pthread_mutex_unlock(&broker->registry.lock);
	r = op_ask(op);
	if (r == WORKER_HELD)
		return;
	if (r == -ERESTART) {
		pthread_mutex_lock(&broker->registry.lock);
		op_unlimit(op);
		pthread_mutex_unlock(&broker->registry.lock);
	}
	op_note_sent(op, r == 0 ? op->ask.request.id : 0);
	if (r == -ERESTART)
		op_start(op);
}
