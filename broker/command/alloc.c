/* SPDX-License-Identifier: MIT */
/*
 * Making allocations.
 *
 * The name is taken first, in state MAKING, so that two makers of one name can't both go
 * on; then the memory is had, by kind: device memory from the driver at once, host memory
 * from the crew, direct, async and managed memory from the owner's worker. Then the
 * allocation is published, or its name is free again and the command has its error.
 *
 * When a device is full, chunks that are kept empty go back first; and while memory is on
 * its way back (a free never waits) the making is parked until it has arrived: `free` and
 * then `alloc` of the same size always works.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "command/control.h"
#include "command/verbs.h"

#define TAG_MAX	   255

#define MAKE_TRIES 3

struct making {
	struct task task;
	struct ask ask; /* for what is free, when there is too little */
	struct broker *broker;
	struct allocation *allocation;
	struct command *command; /* NULL: it went away. registry.lock */
	bool until_close;
	unsigned int n_missed; /* runs of the worker that made it and ended */
	uint64_t n_released;   /* by the device when it was last tried */
	struct cuda_failure failure;
	struct making *next;
};

static void making_start(struct making *making);

/* ---- the end of it ---- */

static int making_interrupt(struct command *command)
{
	struct making *making = command->waiting_for;

	making->command = NULL;
	return -EINTR;
}

/* From here on the command can go away, if it did not before. Under registry.lock. */
static void making_waits(struct making *making)
{
	if (!making->command)
		return;
	making->command->began = true;
	making->command->waiting_for = making;
	making->command->interrupt = making_interrupt;
}

/* The command, for its answer, which nobody takes away any more. Under registry.lock. */
static struct command *making_take_command(struct making *making)
{
	struct command *command = take_ptr(making->command);

	if (command)
		command->interrupt = NULL;
	return command;
}

/* Whether the run that made it is over already: what was to be kept of that is settled
 * without it. Under registry.lock. */
static bool making_has_missed(struct making *making)
{
	const struct allocation *allocation = making->allocation;

	return !kind_is_durable(allocation->kind) && making->command &&
	       !worker_runs(allocation->owner->worker, allocation->worker_epoch) &&
	       making->n_missed++ < MAKE_TRIES;
}

static void making_start(struct making *making);

static void making_done(struct making *making)
{
	struct broker *broker = making->broker;
	struct allocation *allocation = making->allocation;
	struct token token = { allocation->slot, allocation->slot_generation };
	struct command *command;

	pthread_mutex_lock(&broker->registry.lock);
	if (making_has_missed(making)) {
		pthread_mutex_unlock(&broker->registry.lock);
		making_start(making);
		return;
	}
	command = making_take_command(making);
	broker_less_busy(broker);
	if (!command) {
		allocation_release(broker, allocation);
		free(making);
		return;
	}
	allocation_publish(&broker->registry, allocation);
	journal_event(&broker->journal,
		      "alloc allocations/%s id=%llu kind=%s size=%llu uid=%u",
		      allocation->name, (unsigned long long)allocation->id,
		      kind_name(allocation->kind), (unsigned long long)allocation->size,
		      allocation->owner->uid);
	pthread_mutex_unlock(&broker->registry.lock);

	/* Without a place in the list nobody would free it at close. */
	if (making->until_close && control_keep(command->control, token) < 0) {
		free(making);
		pthread_mutex_lock(&broker->registry.lock);
		allocation =
			allocation_get(&broker->registry, token.slot, token.generation);
		if (allocation)
			allocation_release(broker, allocation);
		else
			pthread_mutex_unlock(&broker->registry.lock);
		command_fail(command, ENOMEM, "no memory in the broker");
		return;
	}
	free(making);
	(void)broker_show(broker, OBJECT_ALLOCATION, token, NULL, &command->answer);
	command_done(command, 0);
}

static void making_failed(struct making *making, int error, const char *sentence)
{
	struct broker *broker = making->broker;
	struct allocation *allocation = making->allocation;
	struct command *command;

	pthread_mutex_lock(&broker->registry.lock);
	command = making_take_command(making);
	broker_less_busy(broker);
	if (!kind_is_durable(allocation->kind))
		allocation->owner->n_in_worker--;
	allocation_withdraw(&broker->registry, allocation);
	allocation_free(&broker->registry, allocation);
	pthread_mutex_unlock(&broker->registry.lock);
	free(making);
	if (command)
		command_fail(command, error, "%s", sentence);
}

static void making_failed_call(struct making *making, int error)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	text_printf(&text, "allocation %s of %llu bytes: %s", making->allocation->name,
		    (unsigned long long)making->allocation->size, strerror(error));
	text_add_call(&text, making->failure.call, making->failure.result);
	making_failed(making, error, text_string(&text));
}

/* ---- too little memory ---- */

static void making_told_free(struct ask *ask, const struct wire_reply *reply, bool lost)
{
	struct making *making = container_of(ask, struct making, ask);
	struct allocation *allocation = making->allocation;
	_cleanup_text_ struct text text = TEXT_INIT;

	/* Managed memory may be larger than the device: its free bytes explain nothing.
	 */
	if (lost || reply->error || allocation->managed) {
		making_failed_call(making, ENOMEM);
		return;
	}
	text_printf(&text,
		    "allocation %s of %llu bytes: device %u has %llu bytes free of %llu",
		    allocation->name, (unsigned long long)allocation->size,
		    allocation->device, (unsigned long long)reply->value[0],
		    (unsigned long long)reply->value[1]);
	text_add_call(&text, making->failure.call, making->failure.result);
	making_failed(making, ENOMEM, text_string(&text));
}

static void making_ask_free(struct making *making)
{
	const struct worker_needs none = { 0 };
	uint32_t epoch;

	making->ask = (struct ask){
		.request = { .op = WIRE_MEMORY, .device = making->allocation->device },
		.fd = -1,
		.done = making_told_free,
	};
	pthread_mutex_lock(&making->broker->registry.lock);
	making_waits(making);
	pthread_mutex_unlock(&making->broker->registry.lock);
	if (worker_ask(&making->broker->mover, &none, &making->ask, &epoch) < 0)
		making_failed_call(making, ENOMEM);
}

/* Empty chunks go back to the driver. */
static void making_shrink_pools(struct broker *broker, uint32_t device)
{
	struct owner *owner;
	struct block *block;

	do {
		block = NULL;
		pthread_mutex_lock(&broker->registry.lock);
		for (owner = broker->registry.owners_by_uid; owner && !block;) {
			if (owner->pool)
				block = chunk_pool_shrink(owner->pool, device);
			if (!block)
				owner = owner->hh.next;
		}
		pthread_mutex_unlock(&broker->registry.lock);
		if (block)
			block_give_back(broker, owner, block, NULL, NULL);
	} while (block);
}

static void making_no_memory(struct making *making)
{
	struct broker *broker = making->broker;
	uint32_t device = making->allocation->device;
	bool parked = false, again;

	making_shrink_pools(broker, device);

	pthread_mutex_lock(&broker->registry.lock);
	if (broker->n_releases[device] && making->command) {
		making_waits(making);
		LL_APPEND(broker->parked, making);
		parked = true;
	}
	/* Counted from before the try: what came back just after it is no less there. */
	again = making->command && broker->n_released[device] != making->n_released;
	pthread_mutex_unlock(&broker->registry.lock);
	if (parked)
		return;
	if (again)
		making_start(making);
	else
		making_ask_free(making);
}

void alloc_retry_parked(struct broker *broker, uint32_t device)
{
	struct making *making, *safe, *retry = NULL;

	pthread_mutex_lock(&broker->registry.lock);
	LL_FOREACH_SAFE(broker->parked, making, safe)
	{
		if (making->allocation->device == device) {
			LL_DELETE(broker->parked, making);
			LL_PREPEND(retry, making);
		}
	}
	pthread_mutex_unlock(&broker->registry.lock);
	LL_FOREACH_SAFE(retry, making, safe)
	making_start(making);
}

/* ---- by kind ---- */

static struct chunk_pool *making_pool(struct making *making)
{
	struct broker *broker = making->broker;
	struct owner *owner = making->allocation->owner;

	pthread_mutex_lock(&broker->registry.lock);
	if (!owner->pool)
		owner->pool = chunk_pool_new(&broker->memory);
	pthread_mutex_unlock(&broker->registry.lock);
	return owner->pool;
}

static void make_device(struct making *making)
{
	struct allocation *allocation = making->allocation;
	struct chunk_pool *pool;
	int r;

	making->failure = (struct cuda_failure)CUDA_FAILURE_NONE;
	if (allocation->size <= CELL_MAX && !(allocation->mode & 066)) {
		pool = making_pool(making);
		r = pool ? cell_get(pool, allocation->device, allocation->size,
				    &allocation->block, &allocation->cell,
				    &allocation->address, &making->failure)
			 : -ENOMEM;
	} else {
		r = block_new(&allocation->block, &making->broker->memory,
			      allocation->device, allocation->size, &making->failure);
		if (r == 0)
			allocation->address = allocation->block->address;
	}
	if (r == 0)
		making_done(making);
	else if (r == -ENOMEM)
		making_no_memory(making);
	else
		making_failed_call(making, -r);
}

static void make_host_memory(struct task *task)
{
	struct making *making = container_of(task, struct making, task);
	struct allocation *allocation = making->allocation;
	_cleanup_text_ struct text text = TEXT_INIT;
	int r;

	r = block_new_host(&allocation->block, &making->broker->memory, allocation->size);
	if (r == 0) {
		allocation->address = allocation->block->address;
		allocation->zeroed = true;
		making_done(making);
		return;
	}
	text_printf(&text, "allocation %s of %llu bytes of host memory: %s",
		    allocation->name, (unsigned long long)allocation->size, strerror(-r));
	making_failed(making, -r, text_string(&text));
}

/* Every page of it is made now, so only little of it is made in a thread of the view. */
static void make_host(struct making *making)
{
	making->task.run = make_host_memory;
	if (making->allocation->size <= (1u << 20)) {
		make_host_memory(&making->task);
		return;
	}
	pthread_mutex_lock(&making->broker->registry.lock);
	making_waits(making);
	pthread_mutex_unlock(&making->broker->registry.lock);
	crew_add(&making->broker->crew, &making->task);
}

struct making_op {
	struct op op;
	struct making *making;
};

static uint32_t making_flags(const struct allocation *allocation)
{
	if (allocation->kind == KIND_ASYNC)
		return WIRE_ASYNC;
	if (!allocation->managed)
		return 0;
	return WIRE_MANAGED |
	       (allocation->managed->attach == ATTACH_HOST ? WIRE_ATTACH_HOST : 0);
}

static void make_in_worker_run(struct op *op)
{
	struct allocation *allocation =
		container_of(op, struct making_op, op)->making->allocation;

	op->ask.request = (struct wire_request){
		.op = WIRE_ALLOC,
		.flags = making_flags(allocation),
		.device = allocation->device,
		.length = allocation->size,
	};
	op_ask(op);
}

static void make_in_worker_answered(struct op *op, const struct wire_reply *reply)
{
	struct making *making = container_of(op, struct making_op, op)->making;

	/* The ends of runs look at all allocations, at those that are being made too. */
	pthread_mutex_lock(&op->broker->registry.lock);
	making->allocation->address = reply->value[0];
	making->allocation->worker_epoch = op->asked_epoch;
	making->allocation->zeroed = true;
	pthread_mutex_unlock(&op->broker->registry.lock);
	op_done(op, 0);
}

static void make_in_worker_finish(struct op *op)
{
	struct making *making = container_of(op, struct making_op, op)->making;
	_cleanup_text_ struct text text = TEXT_INIT;

	if (!op->error) {
		making_done(making);
	} else if (op->error == ENOMEM) {
		making->failure = op->failure;
		making_no_memory(making);
	} else {
		text_printf(&text, "allocation %s of %llu bytes: %s",
			    making->allocation->name,
			    (unsigned long long)making->allocation->size,
			    text_string(&op->sentence));
		making_failed(making, op->error, text_string(&text));
	}
}

static const struct op_class make_in_worker_class = {
	.what = "allocation",
	.run = make_in_worker_run,
	.answered = make_in_worker_answered,
	.quiet = true,
	.remakable = true,
};

static void make_in_worker(struct making *making)
{
	struct broker *broker = making->broker;
	struct allocation *allocation = making->allocation;
	struct op *op, *ready = NULL;
	int r = -ENOMEM;

	op = op_new(sizeof(struct making_op), &make_in_worker_class, broker,
		    allocation->owner);
	pthread_mutex_lock(&broker->registry.lock);
	if (op) {
		container_of(op, struct making_op, op)->making = making;
		op->finish = make_in_worker_finish;
		op->worker = worker_of(broker, allocation->owner);
		op->work.stream = allocation->stream;
		r = op->worker ? op_add(op, &ready) : -ENOMEM;
	}
	if (r == 0)
		making_waits(making);
	pthread_mutex_unlock(&broker->registry.lock);
	op_start(ready);
	if (r < 0) {
		op_free(op);
		making_failed(making, -r, "the broker is out of memory or too busy");
	}
}

static void making_start(struct making *making)
{
	static void (*const makers[N_KINDS])(struct making *) = {
		[KIND_DEVICE] = make_device,	 [KIND_HOST] = make_host,
		[KIND_DIRECT] = make_in_worker,	 [KIND_ASYNC] = make_in_worker,
		[KIND_MANAGED] = make_in_worker,
	};
	struct broker *broker = making->broker;

	pthread_mutex_lock(&broker->registry.lock);
	making->n_released = broker->n_released[making->allocation->device];
	pthread_mutex_unlock(&broker->registry.lock);
	makers[making->allocation->kind](making);
}

/* ---- the verb ---- */

enum {
	ALLOC_KIND,
	ALLOC_DEVICE,
	ALLOC_STREAM,
	ALLOC_ATTACH,
	ALLOC_TAG,
	ALLOC_MODE,
	ALLOC_UNTIL,
};

static const struct grammar alloc_grammar = {
	.operands = (const char *const[]){ "NAME", "SIZE", NULL },
	.keys = (const char *const[]){ "kind", "device", "stream", "attach", "tag",
				       "mode", "until", NULL },
};

struct alloc_line {
	const char *name;
	uint64_t size;
	int kind;
	uint64_t device;
	bool has_device;
	const char *stream;
	const char *tag;
	uint8_t attach;
	uint16_t mode;
	bool until_close;
};

/* It is printed as it is, perhaps to a terminal of somebody else's. */
static bool tag_is_plain(const char *tag)
{
	size_t length = strlen(tag);

	for (size_t i = 0; i < length; i++) {
		if (iscntrl((unsigned char)tag[i]))
			return false;
	}
	return length <= TAG_MAX;
}

static int alloc_parse_mode(const char *word, uint16_t *ret_mode, struct refusal *refusal)
{
	unsigned long mode;
	char *end;

	mode = strtoul(word, &end, 8);
	if (!*word || *end || strspn(word, "01234567") != strlen(word) || mode > 0777)
		return refuse(refusal, EINVAL, "mode=%s is no octal mode up to 0777",
			      word);
	/* x follows r: it is not an allocation's own. */
	*ret_mode = (uint16_t)(mode & 0666);
	return 0;
}

static int alloc_parse_attach(const char *word, struct alloc_line *line,
			      struct refusal *refusal)
{
	if (line->kind != KIND_MANAGED)
		return refuse(refusal, EINVAL,
			      "attach=%.64s is for kind=managed, not kind=%s", word,
			      kind_name((enum allocation_kind)line->kind));
	return line_attach(word, ATTACH_HOST, &line->attach, refusal);
}

static int alloc_parse_keys(const char *const *values, struct alloc_line *line,
			    struct refusal *refusal)
{
	int r;

	line->kind = values[ALLOC_KIND] ? kind_find(values[ALLOC_KIND]) : KIND_DEVICE;
	if (line->kind < 0)
		return refuse(refusal, EINVAL,
			      "kind=%s is none of device, direct, async, managed, host",
			      values[ALLOC_KIND]);
	line->has_device = values[ALLOC_DEVICE];
	if (line->has_device) {
		r = line_number(values[ALLOC_DEVICE], "device", UINT64_MAX, &line->device,
				refusal);
		if (r < 0)
			return r;
	}
	line->stream = values[ALLOC_STREAM];
	if (line->stream && line->kind != KIND_ASYNC)
		return refuse(refusal, EINVAL, "stream=%s is for kind=async, not kind=%s",
			      line->stream, kind_name((enum allocation_kind)line->kind));
	if (values[ALLOC_ATTACH]) {
		r = alloc_parse_attach(values[ALLOC_ATTACH], line, refusal);
		if (r < 0)
			return r;
	}
	line->tag = values[ALLOC_TAG];
	if (line->tag && !*line->tag)
		return refuse(refusal, EINVAL, "tag= is empty");
	if (line->tag && !tag_is_plain(line->tag))
		return refuse(refusal, EINVAL,
			      "tag= wants up to %d characters, none of them a control "
			      "character",
			      TAG_MAX);
	line->mode = 0600;
	if (values[ALLOC_MODE]) {
		r = alloc_parse_mode(values[ALLOC_MODE], &line->mode, refusal);
		if (r < 0)
			return r;
	}
	line->until_close = values[ALLOC_UNTIL];
	if (line->until_close && strcmp(values[ALLOC_UNTIL], "close") != 0)
		return refuse(refusal, EINVAL, "until=%s is not until=close",
			      values[ALLOC_UNTIL]);
	return 0;
}

static int alloc_parse(const struct line *words, struct alloc_line *line,
		       struct refusal *refusal)
{
	int r;

	line->name = words->operands[0];
	r = line_name(line->name, "allocation", refusal);
	if (r < 0)
		return r;
	r = line_size(words->operands[1], "size", &line->size, refusal);
	if (r < 0)
		return r;
	if (line->size == 0)
		return refuse(refusal, EINVAL, "allocation %s of size %s: it has no byte",
			      line->name, words->operands[1]);
	return alloc_parse_keys(words->values, line, refusal);
}

static int alloc_check_managed(const struct broker *broker, const struct alloc_line *line,
			       struct refusal *refusal)
{
	if (!broker->devices[line->device]->has_managed)
		return refuse(refusal, EOPNOTSUPP,
			      "device %llu lacks CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY",
			      (unsigned long long)line->device);
	return attach_check(broker, (uint32_t)line->device, line->attach, refusal);
}

/* As command_find(): on failure the lock is let go and the command answered. */
static int alloc_check(struct command *command, struct alloc_line *line,
		       struct stream **ret_stream)
{
	struct broker *broker = command->broker;
	const struct stream *named = NULL;
	struct refusal refusal;

	*ret_stream = NULL;
	if (broker->shutting_down) {
		pthread_mutex_unlock(&broker->registry.lock);
		command_fail(command, ESTALE, "the broker is shutting down");
		return -ESTALE;
	}
	/* A stream says its device; saying both must agree (command_stream()). */
	if (line->stream && !line->has_device)
		named = command_named_stream(command, line->stream);
	if (named)
		line->device = named->device;
	if (line->device >= broker->n_devices) {
		pthread_mutex_unlock(&broker->registry.lock);
		command_fail(command, ENOENT,
			     "there is no device %llu: the last one is %u",
			     (unsigned long long)line->device, broker->n_devices - 1);
		return -ENOENT;
	}
	if (line->kind == KIND_DEVICE && !broker->devices[line->device]->has_vmm) {
		pthread_mutex_unlock(&broker->registry.lock);
		command_fail(
			command, EOPNOTSUPP,
			"device %llu lacks VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED or "
			"HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: use kind=direct",
			(unsigned long long)line->device);
		return -EOPNOTSUPP;
	}
	if (line->kind == KIND_MANAGED &&
	    alloc_check_managed(broker, line, &refusal) < 0) {
		pthread_mutex_unlock(&broker->registry.lock);
		command_refuse(command, &refusal);
		return -EOPNOTSUPP;
	}
	if (line->kind != KIND_ASYNC)
		return 0;
	*ret_stream = command_stream(command, line->stream, (uint32_t)line->device);
	return *ret_stream ? 0 : -ENOENT;
}

static void alloc_fail_new(struct command *command, const char *name, int r)
{
	struct registry *registry = &command->broker->registry;
	const struct allocation *there = allocation_find(registry, name);
	uint64_t id = there ? there->id : 0, size = there ? there->size : 0;

	pthread_mutex_unlock(&registry->lock);
	if (r == -EEXIST)
		command_fail(command, EEXIST,
			     "allocation %s is there already (id %llu, %llu bytes)", name,
			     (unsigned long long)id, (unsigned long long)size);
	else
		command_fail(command, -r, "no memory in the broker");
}

/* Takes the name. As alloc_check(). */
static struct allocation *alloc_new(struct command *command,
				    const struct alloc_line *line, struct stream *stream)
{
	struct registry *registry = &command->broker->registry;
	struct managed *managed = NULL;
	struct allocation *allocation;
	struct owner *owner;
	int r = -ENOMEM;

	owner = owner_get(registry, command->caller->uid, command->caller->gid);
	if (line->kind == KIND_MANAGED)
		managed = managed_new(line->size);
	if (owner && (managed || line->kind != KIND_MANAGED))
		r = allocation_new(&allocation, registry, line->name, line->size, owner);
	if (r < 0) {
		managed_free(managed, &registry->managed);
		alloc_fail_new(command, line->name, r);
		return NULL;
	}
	allocation->managed = managed;
	if (managed)
		managed->attach = line->attach;
	allocation->kind = (uint8_t)line->kind;
	allocation->device = (uint8_t)line->device;
	allocation->gid = command->caller->gid;
	allocation->mode = line->mode;
	allocation->tag = line->tag ? strdup(line->tag) : NULL;
	allocation_set_stream(allocation, stream);
	if (stream)
		stream->used = true;
	if (!kind_is_durable(allocation->kind))
		owner->n_in_worker++;
	return allocation;
}

void verb_alloc(struct command *command)
{
	struct registry *registry = &command->broker->registry;
	struct alloc_line line = { 0 };
	struct refusal refusal;
	struct making *making;
	struct stream *stream;

	if (command_parse(command, &alloc_grammar) < 0)
		return;
	if (alloc_parse(&command->line, &line, &refusal) < 0) {
		command_refuse(command, &refusal);
		return;
	}
	making = calloc(1, sizeof(*making));
	if (!making) {
		command_fail(command, ENOMEM, "no memory in the broker");
		return;
	}
	making->broker = command->broker;
	making->command = command;
	making->failure = (struct cuda_failure)CUDA_FAILURE_NONE;
	making->until_close = line.until_close;
	pthread_mutex_lock(&registry->lock);
	if (alloc_check(command, &line, &stream) < 0) {
		free(making);
		return;
	}
	making->allocation = alloc_new(command, &line, stream);
	if (!making->allocation) {
		free(making);
		return;
	}
	command->broker->n_ops++;
	pthread_mutex_unlock(&registry->lock);
	making_start(making);
}
