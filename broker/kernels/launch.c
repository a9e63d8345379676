/* SPDX-License-Identifier: MIT */
/*
 * Launches.
 *
 * A line is checked against the kernel's own parameters, the device's limits and what its
 * arguments name, all before anything is asked of a worker. The kernel runs in the worker
 * of its module's owner. Kernels of one worker are a chain (model/order.h): each is
 * sent as soon as those before it are, and the GPU keeps the order. One with a time limit
 * begins alone, so that its time is its own.
 *
 * A stream's queue on the GPU has an end, and the thread that puts a kernel there would
 * wait for room; so no more than STREAM_SENT_MAX of a stream are sent at a time.
 */
#include "kernels/launch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/verbs.h"

#define STREAM_SENT_MAX 256

/* ---- to the worker ---- */

/* Behind the record: how, after what, with which arguments. */
static size_t launch_fill_payload(struct launch *launch)
{
	const struct work *work = &launch->op.work;
	const struct launch_line *line = &launch->line;
	size_t length = sizeof(struct wire_launch) + work->n_after * sizeof(uint64_t) +
			line->n_args * sizeof(struct wire_arg) + line->n_bytes;
	struct wire_launch *head = calloc(1, length);
	uint64_t *after;
	struct wire_arg *args;

	if (!head)
		return 0;
	memcpy(head->grid, line->grid, sizeof(head->grid));
	memcpy(head->block, line->block, sizeof(head->block));
	memcpy(head->cluster, line->cluster, sizeof(head->cluster));
	head->shared = line->shared;
	head->n_after = work->n_after;
	head->n_args = line->n_args;
	head->n_bytes = line->n_bytes;
	after = (uint64_t *)(head + 1);
	memcpy(after, work->after, work->n_after * sizeof(*after));
	args = (struct wire_arg *)(after + work->n_after);
	for (unsigned int i = 0; i < line->n_args; i++)
		args[i] = (struct wire_arg){ line->args[i].place, line->args[i].size };
	memcpy(args + line->n_args, line->bytes, line->n_bytes);
	launch->payload = (uint8_t *)head;
	return length;
}

/* Addresses are those of now: an allocation may have moved while the launch waited. */
static void launch_fill_addresses(struct launch *launch)
{
	const struct use *use = launch->op.work.uses;

	for (unsigned int i = 0; i < launch->line.n_args; i++) {
		const struct launch_arg *arg = &launch->line.args[i];
		uint64_t address;

		if (arg->kind != ARG_ALLOCATION)
			continue;
		address = use++->allocation->address + arg->offset;
		memcpy(launch->line.bytes + arg->place, &address, sizeof(address));
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
		.flags = launch->line.cooperative ? WIRE_COOPERATIVE : 0,
		.device = launch->use.image->device,
		.module = launch->use.image->wire_id,
		.function = launch->use.function->index,
		.length = length,
	};
	op->ask.payload = launch->payload;
	op_send(op);
}

/* Whether the stream has room for it; else it is sent when another one has ended. */
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

/* A reset ends what was queued before it too, or an endless kernel could begin after it.
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

	if (launch_is_forgone(launch)) {
		op_fail(op, EIO, "launch of %s did not run: the worker was reset",
			launch->kernel);
		return;
	}
	if (!launch->counted && !launch_enter_stream(launch))
		return;
	op->limit_ms = launch->line.timeout_ms;
	launch_send(launch);
}

/* ---- the end ---- */

static void launch_answered(struct op *op, const struct wire_reply *reply)
{
	container_of(op, struct launch, op)->elapsed_ns = reply->value[0];
	op_done(op, 0);
}

/* Whether the driver can't have told whose fault it was. */
static bool launch_had_company(struct launch *launch)
{
	struct registry *registry = &launch->op.broker->registry;
	const struct owner *owner = launch->op.owner;
	struct stream *stream, *safe;
	uint32_t n_sent = 0;

	pthread_mutex_lock(&registry->lock);
	HASH_ITER (hh, registry->streams_by_name, stream, safe)
		n_sent += stream->owner == owner ? stream->n_sent : 0;
	for (unsigned int i = 0; i < DEVICES_MAX; i++)
		n_sent += owner->defaults[i] ? owner->defaults[i]->n_sent : 0;
	pthread_mutex_unlock(&registry->lock);
	return n_sent > 1;
}

/* Says what the errors of a kernel mean. */
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
			launch->kernel, launch->line.timeout_ms / 1000.0);
	else
		op_fail(op, worker_end_error(op->worker, op->asked_epoch),
			"kernel %s was ended: the worker %s", launch->kernel, reason);
}

static void launch_settle(struct op *op)
{
	struct launch *launch = container_of(op, struct launch, op);

	launch->op.work.stream->n_sent -= launch->counted;
}

/* Gives back what it held; one that waited for room on the stream can be sent now. */
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
	launch_line_deinit(&launch->line);
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
	text_add_dimensions(answer, "grid", launch->line.grid);
	text_add_dimensions(answer, "block", launch->line.block);
	text_printf(answer, "stream %s\n", launch->stream);
}

static const struct op_class launch_class = {
	.what = "launch",
	.run = launch_run,
	.answered = launch_answered,
	.failed = launch_failed,
	.lost = launch_lost,
	.settle = launch_settle,
	.leave = launch_leave,
	.answer = launch_answer,
	.kernel = true,
};

/* ---- the verb ---- */

/* Which kernel. With registry.lock held. Returns: 0; negative and a refusal. */
static int launch_find(struct check *check)
{
	struct command *command = check->command;
	struct launch *launch = check->launch;
	int r;

	if (command->token.generation)
		r = module_use_begin_token(command->broker, command->caller,
					   command->token, &launch->use, &check->refusal);
	else
		r = module_use_begin(command->broker, command->caller,
				     command->line.operands[0], command->line.operands[1],
				     &launch->use, &check->refusal);
	if (r < 0)
		return r;
	snprintf(launch->kernel, sizeof(launch->kernel), "%s/%.64s",
		 launch->use.module->name, launch->use.function->name);
	return 0;
}

/* His own stream, or the default one of whoever's kernel it is. As command_stream(). */
static struct stream *launch_stream(struct check *check)
{
	struct command *command = check->command;
	const struct module_use *use = &check->launch->use;
	const char *name = check->launch->line.stream;
	struct stream *stream;

	if (use->module->owner->uid == command->caller->uid)
		return command_stream(command, name, use->image->device);
	stream = name ? NULL
		      : owner_default_stream(&command->broker->registry,
					     use->module->owner, use->image->device);
	if (stream)
		return stream;
	pthread_mutex_unlock(&command->broker->registry.lock);
	if (name)
		command_fail(command, EPERM,
			     "stream %s is not of uid %u, whose kernel it is", name,
			     use->module->owner->uid);
	else
		command_fail(command, ENOMEM, "no memory in the broker");
	return NULL;
}

static int launch_prepare(struct check *check)
{
	struct launch *launch = check->launch;
	struct op *op = &launch->op;

	op->owner = launch->use.module->owner;
	op->worker = worker_of(op->broker, op->owner);
	if (!op->worker || work_reserve_uses(&op->work, launch->line.n_args) < 0)
		return check_refuse(check, ENOMEM, "no memory in the broker");
	launch->n_resets = op->worker->n_resets;
	return 0;
}

/*
 * All that needs the registry; ends with the op under way or the command answered. With
 * registry.lock held, which is let go.
 */
static void launch_start(struct check *check)
{
	struct command *command = check->command;
	struct broker *broker = command->broker;
	struct launch *launch = check->launch;
	struct op *op = &launch->op;
	struct stream *stream;
	int r;

	r = check->found;
	if (r == 0)
		r = launch_check_params(check);
	if (r == 0)
		r = launch_check_limits(check);
	if (r == 0)
		r = launch_prepare(check);
	if (r < 0) {
		pthread_mutex_unlock(&broker->registry.lock);
		command_refuse(command, &check->refusal);
		return;
	}
	if (!launch_add_uses(check))
		return;
	stream = launch_stream(check);
	if (!stream)
		return;
	op->image = launch->use.image;
	op->work.stream = stream;
	op->work.chain = op->worker;
	op->work.alone = launch->line.timeout_ms != 0;
	strcpy(launch->stream, stream->name);
	launch_note_written(launch);
	check->launch = NULL;
	command_run_op(command, op, launch->line.wait);
}

static void launch_discard(struct launch *launch)
{
	if (!launch)
		return;
	if (launch->use.module)
		module_use_end(launch->op.broker, &launch->use);
	launch_line_deinit(&launch->line);
	op_free(&launch->op);
}

/* A driver that does not tell which functions there are is asked for the one. */
struct looking {
	struct wait wait;
	struct command *command;
	struct launch *launch;
};

static void launch_go(struct command *command, struct launch *launch, bool looked_up);

static void looked_up(struct wait *wait, int error, const void *bytes, size_t length)
{
	struct looking *looking = container_of(wait, struct looking, wait);
	struct command *command = looking->command;
	struct launch *launch = looking->launch;

	(void)bytes;
	(void)length;
	free(looking);
	if (error == 0 || error == -ENOENT) {
		launch_go(command, launch, true);
		return;
	}
	launch_discard(launch);
	command_fail(command, -error, "function %s of module %s can't be asked for",
		     command->line.operands[1], command->line.operands[0]);
}

static void launch_look_up(struct command *command, struct launch *launch,
			   struct token module)
{
	struct looking *looking = calloc(1, sizeof(*looking));

	if (!looking) {
		launch_discard(launch);
		command_fail(command, ENOMEM, "no memory in the broker");
		return;
	}
	looking->wait.done = looked_up;
	looking->command = command;
	looking->launch = launch;
	module_look_up(command->broker, module, command->line.operands[1],
		       &looking->wait);
}

static void launch_go(struct command *command, struct launch *launch, bool asked)
{
	struct check check = { .command = command, .launch = launch };
	struct registry *registry = &command->broker->registry;
	const struct module *module;
	struct token token;

	pthread_mutex_lock(&registry->lock);
	check.found = launch_find(&check);
	if (check.found != -EAGAIN) {
		launch_start(&check);
		launch_discard(check.launch);
		return;
	}
	module = module_find(registry, command->line.operands[0]);
	token = (struct token){ module->slot, module->slot_generation };
	pthread_mutex_unlock(&registry->lock);
	if (!asked) {
		launch_look_up(command, launch, token);
		return;
	}
	launch_discard(launch);
	command_fail(command, ENOENT, "module %s has no function %s",
		     command->line.operands[0], command->line.operands[1]);
}

void verb_launch(struct command *command)
{
	bool own_file = command->token.generation != 0;
	struct broker *broker = command->broker;
	struct refusal refusal;
	struct launch *launch;
	struct op *op;

	if (command_parse(command, own_file ? &launch_own_grammar : &launch_grammar) < 0)
		return;
	op = op_new(sizeof(*launch), &launch_class, broker, NULL);
	if (!op) {
		command_fail(command, ENOMEM, "no memory in the broker");
		return;
	}
	op->finish = command_finish_op;
	launch = container_of(op, struct launch, op);
	if (launch_line_parse(&launch->line, &command->line, &refusal) < 0) {
		launch_discard(launch);
		command_refuse(command, &refusal);
		return;
	}
	if (!launch->line.timeout_ms)
		launch->line.timeout_ms = broker->launch_timeout_ms;
	launch_go(command, launch, false);
}
