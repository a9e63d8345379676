/* SPDX-License-Identifier: MIT */
#include "op/op.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <utlist.h>

#include "base/refusal.h"
#include "model/access.h"
#include "op/interrupt.h"
#include "process/checkpoint.h"
#include "process/processes.h"

struct op *op_new(size_t size, const struct op_class *class, struct broker *broker,
		  struct owner *owner)
{
	struct op *op = calloc(1, size);

	if (!op)
		return NULL;
	op->class = class;
	op->broker = broker;
	op->owner = owner;
	op->payer = owner;
	op->staged.slot = -1;
	op->only_use = -1;
	op->failure = (struct cuda_failure)CUDA_FAILURE_NONE;
	op->ask.fd = -1;
	op->ask.done = op_replied;
	return op;
}

void op_charge(struct op *op, const struct caller *caller)
{
	struct owner *payer;

	if (op->payer && op->payer->uid == caller->uid)
		return;
	payer = owner_get(&op->broker->registry, caller->uid, caller->gid);
	if (payer)
		op->payer = payer;
}

struct op *op_free(struct op *op)
{
	if (!op)
		return NULL;
	work_deinit(&op->work);
	text_deinit(&op->sentence);
	free(op);
	return NULL;
}

void op_describe(struct op *op, struct text *text)
{
	const char *joint = " of allocation ";

	if (op->class->describe) {
		op->class->describe(op, text);
		return;
	}
	text_printf(text, "%s", op->class->what);
	pthread_mutex_lock(&op->broker->registry.lock);
	for (unsigned int i = 0; i < op->work.n_uses; i++) {
		text_printf(text, "%s%s", joint, op->work.uses[i].allocation->name);
		joint = " from ";
	}
	pthread_mutex_unlock(&op->broker->registry.lock);
}

/* ---- zeroing before the first use ---- */

static void zero_run(struct op *op)
{
	const struct use *use = &op->work.uses[0];

	op->worker = &op->broker->processes->mover;
	op->ask.request = (struct wire_request){
		.op = WIRE_FILL,
		.device = use->allocation->device,
		.address = use->allocation->address,
		.length = use->length,
		.pattern_size = 1,
	};
	op_ask(op);
}

/*
 * Unzeroed memory would show old data. Ops added behind the failed zeroing fail
 * (op_check_uses()); later ops try to zero the allocation again.
 */
static void zero_settle(struct op *op)
{
	struct allocation *allocation = op->work.uses[0].allocation;

	if (!op->error)
		return;
	allocation->zeroed = false;
	allocation->zeroing_failed = allocation->n_zeroings;
	free(allocation->zeroing_failure);
	allocation->zeroing_failure = strdup(text_string(&op->sentence));
}

static const struct op_class zero_class = {
	.what = "zeroing",
	.run = zero_run,
	.settle = zero_settle,
	.repeatable = true,
};

/* Whether the op only waits for the mover, which runs no kernels. */
static bool op_is_soon_done(const struct work *work)
{
	const struct op *op = container_of(work, struct op, work);
	bool soon = work->n_before == 0 && op->worker == &op->broker->processes->mover;

	for (unsigned int i = 0; i < work->n_uses; i++)
		soon = soon && kind_is_durable(work->uses[i].allocation->kind);
	return soon;
}

bool op_would_wait(const struct op *op)
{
	return !order_all_before(&op->work, op_is_soon_done);
}

void op_push_ready(struct op **ready, struct op *op)
{
	op->next_ready = *ready;
	*ready = op;
}

struct op *op_list(struct work *work)
{
	struct op *ready = NULL;

	for (; work; work = work->next_ready)
		op_push_ready(&ready, container_of(work, struct op, work));
	return ready;
}

static int op_add_zeroing(struct op *op, struct allocation *allocation,
			  struct op **ret_ready)
{
	struct op *zero;
	int r;

	zero = op_new(sizeof(*zero), &zero_class, op->broker, op->owner);
	if (!zero)
		return -ENOMEM;
	work_use(&zero->work, allocation, 0, allocation->size, true);
	r = order_add(&zero->work);
	if (r < 0) {
		op_free(zero);
		return r;
	}
	allocation->zeroed = true;
	allocation->n_zeroings++;
	op->broker->registry.n_busy++;
	zero->payer = op->payer;
	share_take_beyond(zero->payer, SHARE_OPERATIONS, 1);
	if (zero->work.n_before == 0)
		op_push_ready(ret_ready, zero);
	return 0;
}

/* ---- into the order ---- */

int op_add_unlimited(struct op *op, struct op **ret_ready)
{
	struct op *ready = NULL;
	int r = 0;

	for (unsigned int i = 0; i < op->work.n_uses; i++) {
		struct use *use = &op->work.uses[i];

		if (!use->allocation->zeroed)
			r = op_add_zeroing(op, use->allocation, &ready);
		if (r < 0)
			goto out;
		use->zeroing = use->allocation->n_zeroings;
	}
	r = order_add(&op->work);
	if (r < 0)
		goto out;
	op->broker->registry.n_busy++;
	share_take_beyond(op->payer, SHARE_OPERATIONS, 1);
	if (op->work.n_before == 0)
		op_push_ready(&ready, op);
out:
	/* An added zeroing is independent and is started in any case. */
	*ret_ready = ready;
	return r;
}

int op_add(struct op *op, struct op **ret_ready)
{
	int r;

	*ret_ready = NULL;
	if (op->broker->registry.shutting_down)
		return -ESTALE;
	if (!op->payer)
		op->payer = op->owner;
	r = share_take(op->payer, SHARE_OPERATIONS, 1);
	if (r < 0)
		return r;
	r = op_add_unlimited(op, ret_ready);
	share_give(op->payer, SHARE_OPERATIONS, 1);
	return r;
}

/*
 * Checks that the allocations used are neither lost nor unzeroed. Returns: 0; an errno,
 * with its sentence.
 */
static int op_check_uses(struct op *op, char *sentence, size_t size)
{
	struct refusal refusal;
	int error = 0;

	pthread_mutex_lock(&op->broker->registry.lock);
	for (unsigned int i = 0; i < op->work.n_uses && !error; i++) {
		const struct use *use = &op->work.uses[i];
		const struct allocation *allocation = use->allocation;

		if (allocation->state == ALLOCATION_LOST) {
			error = -refuse_lost(&refusal, allocation);
			snprintf(sentence, size, "%s", refusal.sentence);
		} else if (use->zeroing && use->zeroing <= allocation->zeroing_failed) {
			error = EIO;
			snprintf(sentence, size, "%s",
				 allocation->zeroing_failure ? allocation->zeroing_failure
							     : "it could not be zeroed");
		}
	}
	pthread_mutex_unlock(&op->broker->registry.lock);
	return error;
}

static void address_move(uint64_t *address, const struct use *use)
{
	const struct allocation *allocation = use->allocation;

	if (*address >= use->address && *address - use->address < allocation->size)
		*address += allocation->address - use->address;
}

/* Replaces addresses in the request that changed since the first attempt. */
static void op_move_request(struct op *op)
{
	struct wire_request *request = &op->ask.request;

	pthread_mutex_lock(&op->broker->registry.lock);
	for (unsigned int i = 0; i < op->work.n_uses; i++) {
		const struct use *use = &op->work.uses[i];

		if (!use->address || use->address == use->allocation->address ||
		    (op->only_use >= 0 && op->only_use != (int)i))
			continue;
		/* The first use of a copy is the target, the second the source. */
		address_move(i && op->only_use < 0 ? &request->source : &request->address,
			     use);
	}
	pthread_mutex_unlock(&op->broker->registry.lock);
}

/* Notes the addresses for the class's run(); op_needs() detects a change. */
static void op_note_addresses(struct op *op)
{
	pthread_mutex_lock(&op->broker->registry.lock);
	for (unsigned int i = 0; i < op->work.n_uses; i++)
		op->work.uses[i].address = op->work.uses[i].allocation->address;
	pthread_mutex_unlock(&op->broker->registry.lock);
}

static void op_run(struct op *op)
{
	char sentence[512];
	int error = 0;

	if (op->work.ended) {
		op_done(op, op->error);
		return;
	}
	if (rescue_park(op->broker, &op->work))
		return;
	if (op->asked_again) {
		op->asked_again = false;
		op_move_request(op);
		op_note_addresses(op);
		op_ask_with(op, op->extra_block);
		return;
	}
	if (!op->class->on_lost)
		error = op_check_uses(op, sentence, sizeof(sentence));
	if (error) {
		op_fail(op, error, "%s", sentence);
		return;
	}
	op_note_addresses(op);
	op->class->run(op);
}

/*
 * Runs ready ops, and those that become ready meanwhile. An op done within its run() only
 * extends the list of the outer loop, so a long chain needs no deep stack.
 */
static __thread struct op *ready_list;
static __thread bool ready_loop;

void op_start(struct op *ready)
{
	while (ready) {
		struct op *op = ready;

		ready = op->next_ready;
		op_push_ready(&ready_list, op);
	}
	if (ready_loop)
		return;
	ready_loop = true;
	while (ready_list) {
		struct op *op = ready_list;

		ready_list = op->next_ready;
		op_run(op);
	}
	ready_loop = false;
}

void op_slot_release(struct worker *worker, int slot)
{
	struct slot_waiter *waiter;
	struct op *op;

	if (slot < 0)
		return;
	waiter = staging_slot_put(worker, (unsigned int)slot);
	if (!waiter)
		return;
	op = container_of(waiter, struct op, staged);
	op->next_ready = NULL;
	op_start(op);
}

/* ---- the end ---- */

/* Marks the stream as failed if no caller waits for the op. */
static void op_settle_stream(struct op *op)
{
	struct stream *stream = op->work.stream;

	if (!op->error || !stream || op->class->quiet || op->command || op->wait ||
	    stream->failed)
		return;
	stream->failed = op->error;
	free(stream->failure);
	stream->failure = strdup(text_string(&op->sentence));
	journal_event(&op->broker->journal, "failed streams/%s errno=%s", stream->name,
		      strerrorname_np(op->error));
}

/*
 * An op in a chain leaves the order after its predecessors, and after it was sent. Under
 * registry.lock. Returns: whether the op has to stay for now.
 */
static bool op_must_stay(struct op *op)
{
	if (!op->work.n_ahead)
		return false;
	op->work.ended = true;
	return true;
}

bool op_leave(struct op *op, struct op **ret_ready)
{
	struct work *work = NULL;

	if (!order_leave(&op->work, &work))
		return false;
	share_give(op->payer, SHARE_OPERATIONS, 1);
	registry_less_busy(&op->broker->registry);
	*ret_ready = op_list(work);
	return true;
}

void op_left(struct op *op, struct op *ready)
{
	if (op->class->leave)
		op->class->leave(op);
	if (op->finish)
		op->finish(op);
	op_free(op);
	op_start(ready);
}

void op_done(struct op *op, int error)
{
	struct broker *broker = op->broker;
	struct work *work = NULL;

	pthread_mutex_lock(&broker->registry.lock);
	op->error = error;
	if (op_must_stay(op)) {
		pthread_mutex_unlock(&broker->registry.lock);
		return;
	}
	op->settled = true;
	op_unlimit(op);
	if (error && op->work.n_uses)
		strcpy(op->name, op->work.uses[0].allocation->name);
	op_settle_stream(op);
	if (op->class->settle)
		op->class->settle(op);
	order_done(&op->work, &work);
	share_give(op->payer, SHARE_OPERATIONS, 1);
	registry_less_busy(&broker->registry);
	pthread_mutex_unlock(&broker->registry.lock);

	op_left(op, op_list(work));
}

void op_fail(struct op *op, int error, const char *format, ...)
{
	char sentence[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	text_clear(&op->sentence);
	text_printf(&op->sentence, "%s", sentence);
	op_done(op, error);
}

/* Answers EINTR. An op that has begun goes on, with no caller left to answer. */
static void op_interrupt(struct waiter *waiter)
{
	struct op *op = container_of(waiter, struct op, waiter);
	struct broker *broker = op->broker;
	struct op *ready = NULL;
	struct wait *wait = NULL;
	bool left = false;

	if (!op->settled)
		wait = take_ptr(op->wait);
	if (wait) {
		wait->waiter = NULL;
		left = op_leave(op, &ready);
	}
	pthread_mutex_unlock(&broker->registry.lock);
	if (left)
		op_left(op, ready);
	if (wait)
		wait->done(wait, -EINTR, NULL, 0);
}

void op_set_wait(struct op *op, struct wait *wait)
{
	op->waiter.interrupt = op_interrupt;
	op->wait = wait;
	wait->waiter = &op->waiter;
}

struct wait *op_take_wait(struct op *op)
{
	struct wait *wait;

	pthread_mutex_lock(&op->broker->registry.lock);
	wait = take_ptr(op->wait);
	if (wait)
		wait->waiter = NULL;
	pthread_mutex_unlock(&op->broker->registry.lock);
	return wait;
}

void broker_interrupt(struct broker *broker, struct wait *wait)
{
	pthread_mutex_lock(&broker->registry.lock);
	if (wait->waiter)
		wait->waiter->interrupt(wait->waiter);
	else
		pthread_mutex_unlock(&broker->registry.lock);
}

void op_resume(struct work *works)
{
	op_start(op_list(works));
}
