/* SPDX-License-Identifier: MIT */
#include "command/op.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "command/command.h"
#include "command/rescue.h"
#include "cuda/driver.h"

#define OPS_OF_OWNER_MAX 65536
#define ASK_AT_MOST	 3

static void op_replied(struct ask *ask, const struct wire_reply *reply, bool lost);

struct op *op_new(size_t size, const struct op_class *class, struct broker *broker,
		  struct owner *owner)
{
	struct op *op = calloc(1, size);

	if (!op)
		return NULL;
	op->class = class;
	op->broker = broker;
	op->owner = owner;
	op->slot = -1;
	op->only_use = -1;
	op->failure = (struct cuda_failure)CUDA_FAILURE_NONE;
	op->ask.fd = -1;
	op->ask.done = op_replied;
	return op;
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

void text_add_call(struct text *text, int call, int result)
{
	if (call >= 0)
		text_printf(text, " (%s: %s)", cuda_call_name(call),
			    cuda_result_name(result));
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

	op->worker = &op->broker->mover;
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
 * Without its zeros it would show what stood there before: what was added behind this
 * zeroing fails (op_check_uses), what comes later tries to zero it anew.
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

void op_push_ready(struct op **ready, struct op *op)
{
	op->next_ready = *ready;
	*ready = op;
}

/* The ops of works that are ready. */
static struct op *op_list(struct work *work)
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
	op->broker->n_ops++;
	zero->owner->n_works++;
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
	op->broker->n_ops++;
	op->owner->n_works++;
	if (op->work.n_before == 0)
		op_push_ready(&ready, op);
out:
	/* A zeroing that was added stands on its own and is started either way. */
	*ret_ready = ready;
	return r;
}

int op_add(struct op *op, struct op **ret_ready)
{
	*ret_ready = NULL;
	if (op->broker->shutting_down)
		return -ESTALE;
	if (op->owner->n_works >= OPS_OF_OWNER_MAX)
		return -EBUSY;
	return op_add_unlimited(op, ret_ready);
}

/*
 * Whether what it uses is there to be used.
 * Returns: 0; an errno, with its sentence.
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

/* What it uses has another address than when it was asked for first. */
static void op_move_request(struct op *op)
{
	struct wire_request *request = &op->ask.request;

	pthread_mutex_lock(&op->broker->registry.lock);
	for (unsigned int i = 0; i < op->work.n_uses; i++) {
		const struct use *use = &op->work.uses[i];

		if (!use->address || use->address == use->allocation->address ||
		    (op->only_use >= 0 && op->only_use != (int)i))
			continue;
		/* A copy has its target first, then its source. */
		address_move(i && op->only_use < 0 ? &request->source : &request->address,
			     use);
	}
	pthread_mutex_unlock(&op->broker->registry.lock);
}

/* Where what it uses is, for its class's run: op_needs() sees whether it still is. */
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
	if (rescue_park(op))
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
 * Runs what is ready and what becomes ready by that. An op that is done within its run
 * only adds to the list of the loop that stands above it, so that a long chain of them
 * needs no deep stack.
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
	struct op *waiter;

	if (slot < 0)
		return;
	waiter = worker_slot_put(worker, (unsigned int)slot);
	if (waiter) {
		waiter->next_ready = NULL;
		op_start(waiter);
	}
}

/* ---- asking ---- */

/*
 * A copy by the GPU leaves managed memory on the GPU, and pulls there what is on the
 * host. So the CPU copies what no GPU has used since it was there for sure.
 */
static void op_spare_pages(struct op *op, const struct allocation *allocation)
{
	struct wire_request *request = &op->ask.request;
	struct managed *managed = allocation->managed;

	request->flags &= ~(uint32_t)WIRE_BY_CPU;
	switch (request->op) {
	case WIRE_FILL:
		if (!(request->flags & WIRE_STAY))
			break;
		/* fall through */
	case WIRE_READ:
	case WIRE_WRITE:
		if (managed->on_host &&
		    op->broker->devices[allocation->device]->has_concurrent)
			request->flags |= WIRE_BY_CPU;
		return;
	case WIRE_PREFETCH:
		if (location_place((uint16_t)request->location) != LOCATION_DEVICE)
			return;
		break;
	case WIRE_LAUNCH:
	case WIRE_COPY:
		break;
	default:
		return;
	}
	managed->on_host = false;
}

/* Returns: 0; -ERESTART where something has another address than the question has. */
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
		if (allocation->managed)
			op_spare_pages(op, allocation);
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
	/* Elsewhere than in its owner's worker, on its device, the order is the broker's
	 * alone. */
	if (op->work.stream && op->worker->owner == op->work.stream->owner &&
	    op->work.stream->device == op->ask.request.device) {
		needs->stream = op->work.stream;
		op->ask.request.stream = op->work.stream->wire_id;
	}
	return r;
}

/* Whether the run that it needed is over, and what lives there is kept. */
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

/* The run that it needed is over; what is lost with it says why, once that is noted. */
static void op_fail_stale(struct op *op, const char *what)
{
	char reason[128];

	worker_end_reason(op->worker, reason, sizeof(reason));
	op_fail(op, ESTALE, "%s: the worker that held it %s", what, reason);
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
	struct worker_needs needs = { .blocks = few, .image = op->image };
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
	if (r == 0)
		return 0;
	if (r == -ESTALE && op->n_asked < ASK_AT_MOST && op_has_missed(op, needs.epoch))
		r = -ERESTART;
	if (r == -ERESTART) {
		/* A kernel's arguments have the addresses: op_send() has it run anew. */
		op->asked_again = !op->class->kernel;
		op->next_ready = NULL;
		if (op->asked_again)
			op_start(op);
		return r;
	}
	op_describe(op, &what);
	if (r == -ESTALE)
		op_fail_stale(op, text_string(&what));
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

/* All of it is durable, or is being made anew in the next run. */
static bool op_can_repeat(const struct op *op)
{
	bool can = op->class->repeatable && op->n_asked < ASK_AT_MOST;

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

static void op_note_fault(struct op *op, const struct wire_reply *reply)
{
	_cleanup_text_ struct text reason = TEXT_INIT;

	text_printf(&reason, "lost its contexts");
	text_add_call(&reason, reply->call, reply->result);
	pthread_mutex_lock(&op->broker->registry.lock);
	rescue_begin(op->broker, op->worker, op->asked_epoch, text_string(&reason),
		     cuda_result_errno(reply->result), NULL);
	pthread_mutex_unlock(&op->broker->registry.lock);
}

/*
 * What it did to managed memory may have come while that was written out, or after it:
 * then it is not in what was kept, and counts as not done.
 */
static bool op_was_overtaken(const struct op *op)
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
	pthread_mutex_unlock(&op->broker->registry.lock);
	return overtaken;
}

static void op_replied(struct ask *ask, const struct wire_reply *reply, bool lost)
{
	struct op *op = container_of(ask, struct op, ask);
	_cleanup_text_ struct text what = TEXT_INIT;
	char reason[128];

	if (!lost)
		worker_forgive(op->worker);
	/* The first that shows that the contexts are lost: nothing else comes of them. */
	if (!lost && cuda_result_is_sticky(reply->result)) {
		op_note_fault(op, reply);
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
	} else if (op->class->answered) {
		op->class->answered(op, reply);
	} else {
		op_done(op, 0);
	}
}

/* ---- time limits ---- */

/* Its time begins. Under registry.lock. */
static void op_limit(struct op *op)
{
	struct broker *broker = op->broker;

	if (!op->limit_ms)
		return;
	op->deadline_ms = clock_ms() + op->limit_ms;
	DL_APPEND2(broker->limited, op, prev_limited, next_limited);
	pthread_cond_signal(&broker->housekeeper_wake);
}

/* Under registry.lock. */
static void op_unlimit(struct op *op)
{
	if (op->deadline_ms)
		DL_DELETE2(op->broker->limited, op, prev_limited, next_limited);
	op->deadline_ms = 0;
}

int64_t op_check_limits(struct broker *broker)
{
	int64_t now = clock_ms(), next = -1;
	struct op *op, *safe;

	pthread_mutex_lock(&broker->registry.lock);
	DL_FOREACH_SAFE2(broker->limited, op, safe, next_limited)
	{
		/* While it is being sent nobody knows to which run. */
		if (op->deadline_ms > now || op->work.sending) {
			int64_t left = MAX(op->deadline_ms - now, (int64_t)1);

			next = next < 0 ? left : MIN(next, left);
			continue;
		}
		op->timed_out = true;
		op_unlimit(op);
		rescue_begin(broker, op->worker, op->asked_epoch,
			     "was ended: a kernel ran longer than its time limit", EIO,
			     NULL);
	}
	pthread_mutex_unlock(&broker->registry.lock);
	return next;
}

/* ---- the end ---- */

/* The failure of what nobody waits for shows on its stream. */
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

void broker_less_busy(struct broker *broker)
{
	if (--broker->n_ops == 0)
		pthread_cond_broadcast(&broker->idle);
}

/*
 * One of a chain leaves after those that it follows, and after it was sent.
 * Under registry.lock. Returns: whether it has to wait with that.
 */
static bool op_must_stay(struct op *op)
{
	if (!op->work.n_ahead)
		return false;
	op->work.ended = true;
	return true;
}

/*
 * Asks for a work of a chain: those that follow are sent behind it. Its answer may come
 * before it is known here as sent.
 */
void op_send(struct op *op)
{
	struct broker *broker = op->broker;
	struct work *work = NULL;
	bool over;
	int r;

	pthread_mutex_lock(&broker->registry.lock);
	order_sending(&op->work);
	op_limit(op);
	pthread_mutex_unlock(&broker->registry.lock);
	r = op_ask(op);
	pthread_mutex_lock(&broker->registry.lock);
	if (r == -ERESTART)
		op_unlimit(op);
	over = order_sent(&op->work, r == 0 ? op->ask.request.id : 0, &work);
	pthread_mutex_unlock(&broker->registry.lock);
	op_start(op_list(work));
	if (over)
		op_done(op, op->error);
	else if (r == -ERESTART)
		op_start(op);
}

void op_done(struct op *op, int error)
{
	struct broker *broker = op->broker;
	struct work *work = NULL;
	struct op *ready;

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
	op->owner->n_works--;
	broker_less_busy(broker);
	pthread_mutex_unlock(&broker->registry.lock);

	ready = op_list(work);
	if (op->class->leave)
		op->class->leave(op);
	if (op->finish)
		op->finish(op);
	op_free(op);
	op_start(ready);
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

/* A transfer answers EINTR; what it asked for may still happen, and nobody is told. */
static void op_interrupt(struct waiter *waiter)
{
	struct op *op = container_of(waiter, struct op, waiter);
	struct broker *broker = op->broker;
	struct wait *wait = NULL;

	if (!op->settled)
		wait = take_ptr(op->wait);
	if (wait)
		wait->waiter = NULL;
	pthread_mutex_unlock(&broker->registry.lock);
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
