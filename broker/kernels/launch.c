/* SPDX-License-Identifier: MIT */
/*
 * Launches.
 *
 * A line is checked before any request to a worker: against the kernel's parameters, the
 * device's limits and the allocations named. The kernel runs in the worker of its
 * module's owner. Kernels of one worker form a chain (model/order.h): each is sent as
 * soon as its predecessors are sent, and the GPU keeps the order. A kernel with a time
 * limit begins alone, so that no other kernel uses up its time.
 *
 * A stream's queue on the GPU is limited, and a thread adding to a full queue would
 * block. So at most STREAM_SENT_MAX kernels of a stream are sent at a time.
 */
#include "kernels/launch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cuda/result.h"

#define STREAM_SENT_MAX 256

/* ---- to the worker ---- */

/* Fills the payload that follows the request: configuration, predecessors, arguments. */
static size_t launch_fill_payload(struct launch *launch)
{
	const struct work *work = &launch->op.work;
	const struct launch_spec *spec = &launch->spec;
	size_t length = sizeof(struct wire_launch) + work->n_after * sizeof(uint64_t) +
			spec->n_args * sizeof(struct wire_arg) + spec->n_bytes;
	struct wire_launch *head = calloc(1, length);
	uint64_t *after;
	struct wire_arg *args;

	if (!head)
		return 0;
	memcpy(head->grid, spec->grid, sizeof(head->grid));
	memcpy(head->block, spec->block, sizeof(head->block));
	memcpy(head->cluster, spec->cluster, sizeof(head->cluster));
	head->shared = spec->shared;
	head->n_after = work->n_after;
	head->n_args = spec->n_args;
	head->n_bytes = spec->n_bytes;
	after = (uint64_t *)(head + 1);
	memcpy(after, work->after, work->n_after * sizeof(*after));
	args = (struct wire_arg *)(after + work->n_after);
	for (unsigned int i = 0; i < spec->n_args; i++)
		args[i] = (struct wire_arg){ spec->args[i].place, spec->args[i].size };
	memcpy(args + spec->n_args, spec->bytes, spec->n_bytes);
	launch->payload = (uint8_t *)head;
	return length;
}

/* Uses current addresses: an allocation may have moved while the launch was queued. */
static void launch_fill_addresses(struct launch *launch)
{
	const struct use *use = launch->op.work.uses;

	for (unsigned int i = 0; i < launch->spec.n_args; i++) {
		const struct launch_arg *arg = &launch->spec.args[i];
		uint64_t address;

		if (arg->kind != ARG_ALLOCATION)
			continue;
		address = use++->allocation->address + arg->offset;
		memcpy(launch->spec.bytes + arg->place, &address, sizeof(address));
	}
}

static void launch_send(struct launch *launch)
{
	struct op *op = &launch->op;
	size_t length;

	launch_fill_addresses(launch);
	free(take_ptr(launch->payload));
	length = launch_fill_payload(launch);
	if (!length) {
		op_fail(op, ENOMEM, "launch of %s: no memory in the broker",
			launch->kernel);
		return;
	}
	op->ask.request = (struct wire_request){
		.op = WIRE_LAUNCH,
		.flags = launch->spec.cooperative ? WIRE_COOPERATIVE : 0,
		.device = launch->use.image->device,
		.module = launch->use.image->wire_id,
		.function = launch->use.function->index,
		.length = length,
	};
	op->ask.payload = launch->payload;
	op_send(op);
}

/*
 * Whether the stream has room for the kernel; if not, the kernel is sent after another
 * has ended.
 */
static bool launch_enter_stream(struct launch *launch)
{
	struct stream *stream = launch->op.work.stream;
	bool room;

	pthread_mutex_lock(&launch->op.broker->registry.lock);
	room = stream->n_sent < STREAM_SENT_MAX;
	launch->counted = room;
	if (room)
		stream->n_sent++;
	else
		stream->held = &launch->op.work;
	pthread_mutex_unlock(&launch->op.broker->registry.lock);
	return room;
}

/*
 * Whether a reset came after the launch was queued. A reset also ends queued launches, or
 * an endless kernel could begin afterwards.
 */
static bool launch_is_forgone(const struct launch *launch)
{
	struct broker *broker = launch->op.broker;
	bool forgone;

	pthread_mutex_lock(&broker->registry.lock);
	forgone = launch->op.worker->n_resets != launch->n_resets;
	pthread_mutex_unlock(&broker->registry.lock);
	return forgone;
}

static void launch_run(struct op *op)
{
	struct launch *launch = container_of(op, struct launch, op);
	struct refusal refusal;

	if (launch_is_forgone(launch)) {
		op_fail(op, EIO, "launch of %s did not run: the worker was reset",
			launch->kernel);
		return;
	}
	if (launch_check_rights(launch, &refusal) < 0) {
		op_fail(op, refusal.error, "launch of %s did not run: %s", launch->kernel,
			refusal.sentence);
		return;
	}
	if (!launch->counted && !launch_enter_stream(launch))
		return;
	op->limit_ms = launch->spec.timeout_ms;
	launch_send(launch);
}

/* ---- the end ---- */

static void launch_answered(struct op *op, const struct wire_reply *reply)
{
	container_of(op, struct launch, op)->elapsed_ns = reply->value[0];
	op_done(op, 0);
}

/* Whether other kernels were running, so the driver can't say which kernel failed. */
static bool launch_had_company(struct launch *launch)
{
	struct registry *registry = &launch->op.broker->registry;
	uint32_t n_sent;

	pthread_mutex_lock(&registry->lock);
	n_sent = owner_n_sent(registry, launch->op.owner);
	pthread_mutex_unlock(&registry->lock);
	return n_sent > 1;
}

/* Explains the errors of a kernel. */
static void launch_failed(struct op *op, const struct wire_reply *reply)
{
	struct launch *launch = container_of(op, struct launch, op);
	_cleanup_text_ struct text why = TEXT_INIT;

	text_add_call(&why, reply->call, reply->result);
	if (reply->error == ECANCELED)
		op_fail(op, EIO, "launch of %s did not run: a kernel before it failed%s",
			launch->kernel, text_string(&why));
	else if (cuda_result_is_sticky(reply->result))
		op_fail(op, reply->error, "kernel %s failed%s%s", launch->kernel,
			launch_had_company(launch) ? ", or one that was under way with it"
						   : "",
			text_string(&why));
	else if (reply->result == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE)
		op_fail(op, reply->error,
			"launch of %s failed: all blocks of a cooperative kernel have to "
			"run at the same time%s",
			launch->kernel, text_string(&why));
	else
		op_fail(op, reply->error, "launch of %s failed: %s%s", launch->kernel,
			strerror(reply->error), text_string(&why));
}

static void launch_lost(struct op *op, const char *reason)
{
	struct launch *launch = container_of(op, struct launch, op);

	if (op->timed_out)
		op_fail(op, ETIMEDOUT, "kernel %s was ended by its time limit of %g s",
			launch->kernel, launch->spec.timeout_ms / 1000.0);
	else
		op_fail(op, worker_end_error(op->worker, op->asked_epoch),
			"kernel %s was ended: the worker %s", launch->kernel, reason);
}

static void launch_settle(struct op *op)
{
	struct launch *launch = container_of(op, struct launch, op);

	launch->op.work.stream->n_sent -= launch->counted;
}

/* Releases resources; a launch waiting for room on the stream is sent now. */
static void launch_leave(struct op *op)
{
	struct launch *launch = container_of(op, struct launch, op);
	struct stream *stream = op->work.stream;
	struct work *held = NULL;
	struct op *next;

	if (launch->counted) {
		pthread_mutex_lock(&op->broker->registry.lock);
		held = stream->held;
		if (held)
			stream->n_sent++;
		stream->held = NULL;
		pthread_mutex_unlock(&op->broker->registry.lock);
	}
	module_use_end(op->broker, &launch->use);
	free(launch->payload);
	launch_spec_deinit(&launch->spec);
	if (!held)
		return;
	next = container_of(held, struct op, work);
	container_of(next, struct launch, op)->counted = true;
	next->next_ready = NULL;
	op_start(next);
}

static void text_add_dimensions(struct text *text, const char *key,
				const uint32_t dimensions[3])
{
	text_printf(text, "%s %u,%u,%u\n", key, dimensions[0], dimensions[1],
		    dimensions[2]);
}

static void launch_answer(struct op *op, struct text *answer, bool done)
{
	const struct launch *launch = container_of(op, struct launch, op);

	if (done)
		text_printf(answer, "elapsed_ns %llu\n",
			    (unsigned long long)launch->elapsed_ns);
	text_add_dimensions(answer, "grid", launch->spec.grid);
	text_add_dimensions(answer, "block", launch->spec.block);
	text_printf(answer, "stream %s\n", launch->stream);
}

static const char *launch_name(const struct op *op)
{
	return container_of(op, struct launch, op)->kernel;
}

static const struct kernel_class launch_kernel_class = {
	.name = launch_name,
	.may_use = launch_may_use,
};

static const struct op_class launch_class = {
	.what = "launch",
	.run = launch_run,
	.answered = launch_answered,
	.failed = launch_failed,
	.lost = launch_lost,
	.settle = launch_settle,
	.leave = launch_leave,
	.answer = launch_answer,
	.kernel = &launch_kernel_class,
};

struct launch *launch_new(struct broker *broker, void (*finish)(struct op *op))
{
	struct op *op = op_new(sizeof(struct launch), &launch_class, broker, NULL);

	if (!op)
		return NULL;
	op->finish = finish;
	return container_of(op, struct launch, op);
}

void launch_discard(struct launch *launch)
{
	if (!launch)
		return;
	if (launch->use.module)
		module_use_end(launch->op.broker, &launch->use);
	launch_spec_deinit(&launch->spec);
	op_free(&launch->op);
}
