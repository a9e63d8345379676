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
#include <gpumem/cuda.h>
#include <stdio.h>
#include <string.h>

#include "base/refusal.h"
#include "cuda/result.h"
#include "kernels/fault.h"
#include "memops/permissions.h"
#include "memops/withdrawal.h"
#include "model/allocation.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/stream.h"
#include "process/broker.h"

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
	const struct use *uses = launch->op.work.uses;

	for (unsigned int i = 0; i < launch->spec.n_args; i++) {
		const struct launch_arg *arg = &launch->spec.args[i];
		uint64_t address;

		if (arg->kind != ARG_ALLOCATION)
			continue;
		address = uses[arg->use].allocation->address + arg->offset;
		memcpy(launch->spec.bytes + arg->place, &address, sizeof(address));
	}
}

/*
 * Whether the stream has room for the kernel; if not, the kernel is sent after another
 * has ended.
 */
static bool launch_enter_stream(struct launch *launch)
{
	struct stream *stream = launch->op.work.stream;

	launch->counted = stream->n_sent < STREAM_SENT_MAX;
	if (launch->counted)
		stream_add_sent(stream, 1);
	else
		stream->held = &launch->op.work;
	return launch->counted;
}

static enum begun launch_begin(struct op *op)
{
	struct launch *launch = container_of(op, struct launch, op);
	struct refusal refusal;
	size_t length;

	/* A reset also ends queued launches, or an endless kernel could begin after it.
	 */
	if (op->worker->n_resets != launch->n_resets)
		return op_refuse(op, EIO,
				 "launch of %s did not run: the worker was reset",
				 launch->kernel);
	if (launch_check_rights(launch, &refusal) < 0)
		return op_refuse(op, refusal.error, "launch of %s did not run: %s",
				 launch->kernel, refusal.sentence);
	if (guest_is_barred(op) || (!launch->counted && !launch_enter_stream(launch)))
		return OP_PARKED;
	op->limit_ms = launch->spec.timeout_ms;
	launch_fill_addresses(launch);
	free(take_ptr(launch->payload));
	length = launch_fill_payload(launch);
	if (!length)
		return op_refuse(op, ENOMEM, "launch of %s: no memory in the broker",
				 launch->kernel);
	op->request.record = (struct wire_request){
		.op = WIRE_LAUNCH,
		.flags = launch->spec.cooperative ? WIRE_COOPERATIVE : 0,
		.device = launch->use.image->device,
		.module = launch->use.image->wire_id,
		.function = launch->use.function->index,
		.length = length,
	};
	op->request.payload = launch->payload;
	return OP_RUN;
}

/* ---- the end ---- */

/* Ends the use of the module, unless the launch was in the order and left it. */
static void launch_deinit(struct launch *launch)
{
	struct broker *broker = launch->op.broker;

	if (launch->use.module) {
		pthread_mutex_lock(&broker->registry->lock);
		module_use_end(broker, &launch->use);
		pthread_mutex_unlock(&broker->registry->lock);
	}
	free(launch->payload);
	free(launch->kernel);
	launch_spec_deinit(&launch->spec);
}

static void launch_note(struct op *op, const struct wire_reply *reply)
{
	container_of(op, struct launch, op)->elapsed_ns = reply->value[0];
}

/* Whether other kernels were running, so the driver can't say which kernel failed. */
static bool launch_had_company(struct launch *launch)
{
	struct registry *registry = launch->op.broker->registry;
	uint32_t n_sent;

	pthread_mutex_lock(&registry->lock);
	n_sent = launch->op.owner->n_sent;
	pthread_mutex_unlock(&registry->lock);
	return n_sent > 1;
}

static void launch_faulted(struct launch *launch, const struct wire_reply *reply,
			   struct text *why)
{
	bool alone = !launch_had_company(launch);

	text_add_fault(why, launch, alone, launch->op.request.text);
	op_fail(&launch->op, reply->error, "kernel %s failed%s%s", launch->kernel,
		alone ? "" : ", or one that was under way with it", text_string(why));
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
		launch_faulted(launch, reply, &why);
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

/* Leaves the stream and the module. The room goes to a launch that waits for it. */
static void launch_settle(struct op *op)
{
	struct launch *launch = container_of(op, struct launch, op);
	struct stream *stream = op->work.stream;
	struct work *held = launch->counted ? take_ptr(stream->held) : NULL;

	launch_note_used(launch);
	if (held) {
		launch->next = container_of(held, struct launch, op.work);
		launch->next->counted = true;
	} else if (launch->counted) {
		stream_add_sent(stream, -1);
	}
	module_use_end(op->broker, &launch->use);
}

static void launch_leave(struct op *op)
{
	struct launch *launch = container_of(op, struct launch, op);

	launch_deinit(launch);
	if (launch->next)
		op_start_again(&launch->next->op);
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
};

static const struct op_class launch_class = {
	.what = "launch",
	.begin = launch_begin,
	.note = launch_note,
	.failed = launch_failed,
	.lost = launch_lost,
	.settle = launch_settle,
	.leave = launch_leave,
	.answer = launch_answer,
	.may_use = guest_may_use,
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
	launch_deinit(launch);
	op_free(&launch->op);
}
