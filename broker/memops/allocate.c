/* SPDX-License-Identifier: MIT */
/*
 * Makes allocations.
 *
 * The name is taken first, in state MAKING, so that only one of two requests for a name
 * goes on. Then the memory is made, by kind: small device memory comes from an existing
 * chunk; other device memory and host memory come from the crew, because the driver or
 * the kernel may take long; direct, async and managed memory comes from the owner's
 * worker. Finally the allocation is published, or its name is freed and the command gets
 * the error.
 *
 * When a device is full, empty chunks are released first. While freed memory is still
 * being reclaimed (a free never waits) the request is parked, for a limited time. So
 * `free` followed by `alloc` of the same size always works.
 */
#include "memops/allocate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/number.h"
#include "memops/lease.h"
#include "memops/release.h"
#include "op/op.h"
#include "process/processes.h"

#define MAKE_TRIES 3
/*
 * A request waits for reclaimed memory this many times the time limit of workers for
 * giving memory back.
 */
#define PARKED_GIVE_BACKS 3

/* ---- the end ---- */

/* From now on the command can be interrupted. Under registry.lock. */
static void making_waits(struct making *making)
{
	if (!making->completion)
		return;
	making->completion->began = true;
	completion_hold(making->completion, &making->completion, NULL);
}

/*
 * Whether the process that made the memory has ended already: the checkpoint did not
 * include the new allocation. Under registry.lock.
 */
static bool making_has_missed(struct making *making)
{
	const struct allocation *allocation = making->allocation;

	return !kind_is_durable(allocation->kind) && making->completion &&
	       !worker_runs(allocation->owner->worker, allocation->worker_epoch) &&
	       making->n_missed++ < MAKE_TRIES;
}

static void making_done(struct making *making)
{
	struct broker *broker = making->broker;
	struct allocation *allocation = making->allocation;
	struct token token = { allocation->slot, allocation->slot_generation };
	void (*made)(struct completion * completion, struct token token);
	struct completion *completion;

	pthread_mutex_lock(&broker->registry.lock);
	if (making_has_missed(making)) {
		pthread_mutex_unlock(&broker->registry.lock);
		making_start(making);
		return;
	}
	completion = completion_take(&making->completion);
	registry_less_busy(&broker->registry);
	if (!completion) {
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

	made = making->made;
	free(making);
	made(completion, token);
}

static void making_failed(struct making *making, int error, const char *sentence)
{
	struct broker *broker = making->broker;
	struct allocation *allocation = making->allocation;
	struct completion *completion;

	pthread_mutex_lock(&broker->registry.lock);
	completion = completion_take(&making->completion);
	registry_less_busy(&broker->registry);
	if (!kind_is_durable(allocation->kind))
		allocation->owner->n_in_worker--;
	allocation_withdraw(&broker->registry, allocation);
	allocation_free(&broker->registry, allocation);
	pthread_mutex_unlock(&broker->registry.lock);
	free(making);
	if (completion)
		completion->done(completion, -error, sentence, 0);
}

static void making_failed_call(struct making *making, int error)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	text_printf(&text, "allocation %s of %s%s: %s", making->allocation->name,
		    size_text(making->allocation->size),
		    making->allocation->kind == KIND_HOST ? " of host memory" : "",
		    error == EMFILE ? DESCRIPTORS_GONE : strerror(error));
	text_add_call(&text, making->failure.call, making->failure.result);
	making_failed(making, error, text_string(&text));
}

static void making_failed_share(struct making *making, int error, const char *why)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	text_printf(&text, "allocation %s: %s", making->allocation->name, why);
	making_failed(making, error, text_string(&text));
}

/* ---- too little memory ---- */

static void making_told_free(struct ask *ask, const struct wire_reply *reply, bool lost)
{
	struct making *making = container_of(ask, struct making, ask);
	struct allocation *allocation = making->allocation;
	_cleanup_text_ struct text text = TEXT_INIT;

	/* Managed memory may exceed the device: free bytes explain nothing. */
	if (lost || reply->error || allocation->managed) {
		making_failed_call(making, ENOMEM);
		return;
	}
	text_printf(&text, "allocation %s of %s: device %u has %s free of %s",
		    allocation->name, size_text(allocation->size), allocation->device,
		    size_text(reply->value[0]), size_text(reply->value[1]));
	text_add_call(&text, making->failure.call, making->failure.result);
	if (making->waited)
		text_printf(
			&text, "; memory that was freed has not come back within %g s",
			making->broker->ops->give_back_ms * PARKED_GIVE_BACKS / 1000.0);
	pthread_mutex_lock(&making->broker->registry.lock);
	text_add_lease_holders(&text, making->broker, allocation->device);
	pthread_mutex_unlock(&making->broker->registry.lock);
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
	if (worker_ask(&making->broker->processes->mover, &none, &making->ask, &epoch) <
	    0)
		making_failed_call(making, ENOMEM);
}

/* Releases empty chunks to the driver. */
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

static void making_give_up(struct task *task)
{
	making_ask_free(container_of(task, struct making, task));
}

static void making_passed(struct deadline *deadline)
{
	struct making *making = container_of(deadline, struct making, deadline);
	struct broker *broker = making->broker;

	reclaim_forget(&broker->reclaim, &making->waiter);
	making->waited = true;
	making->task.run = making_give_up;
	crew_add(&broker->crew, making->allocation->owner->uid, &making->task);
}

/* Memory has been reclaimed. Under registry.lock. */
static void making_is_due(struct reclaim_waiter *waiter)
{
	struct making *making = container_of(waiter, struct making, waiter);

	deadline_clear(making->broker, &making->deadline);
}

static void making_retry(struct reclaim_waiter *waiter)
{
	making_start(container_of(waiter, struct making, waiter));
}

/*
 * Parks the request, for a limited time: a kernel may hold up freed memory for as long as
 * it runs. Under registry.lock. Returns: whether the request is parked.
 */
static bool making_park(struct making *making)
{
	struct broker *broker = making->broker;
	int64_t now = clock_ms();

	if (!broker->reclaim.n_coming[making->allocation->device] || !making->completion)
		return false;
	if (!making->wait_until_ms)
		making->wait_until_ms =
			now + (int64_t)broker->ops->give_back_ms * PARKED_GIVE_BACKS;
	if (now >= making->wait_until_ms) {
		making->waited = true;
		return false;
	}
	making->waiter = (struct reclaim_waiter){
		.device = making->allocation->device,
		.taken = making_is_due,
		.retry = making_retry,
	};
	if (!reclaim_wait(&broker->reclaim, &making->waiter))
		return false;
	making_waits(making);
	deadline_set(broker, &making->deadline, (uint32_t)(making->wait_until_ms - now),
		     making_passed);
	return true;
}

static void making_no_memory(struct making *making)
{
	struct broker *broker = making->broker;
	uint32_t device = making->allocation->device;
	bool parked, again;

	making_shrink_pools(broker, device);

	pthread_mutex_lock(&broker->registry.lock);
	parked = making_park(making);
	/*
	 * n_arrived was read before the try, so memory reclaimed just afterwards counts.
	 */
	again = making->completion &&
		broker->reclaim.n_arrived[device] != making->n_arrived;
	pthread_mutex_unlock(&broker->registry.lock);
	if (parked)
		return;
	if (again)
		making_start(making);
	else
		making_ask_free(making);
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

bool allocation_is_cell(enum allocation_kind kind, uint64_t size, uint16_t mode)
{
	uint64_t most = kind == KIND_HOST ? HOST_CELL_MAX : CELL_MAX;

	return kind_is_durable(kind) && size <= most && !(mode & 066);
}

uint32_t allocation_place(const struct allocation *allocation)
{
	return allocation->kind == KIND_HOST ? PLACE_HOST : allocation->device;
}

static bool making_is_cell(const struct making *making)
{
	const struct allocation *allocation = making->allocation;

	return allocation_is_cell((enum allocation_kind)allocation->kind,
				  allocation->size, allocation->mode);
}

static bool making_is_host(const struct making *making)
{
	return making->allocation->kind == KIND_HOST;
}
/* Returns: 0; -ENOMEM; -EAGAIN when another chunk is needed. */
static int making_cell(struct making *making)
{
	struct allocation *allocation = making->allocation;

	return cell_get(allocation->owner->pool, allocation_place(allocation),
			allocation->size, &allocation->block, &allocation->cell,
			&allocation->address);
}

/* Charges the owner for the descriptor of a chunk. Returns: 0; -EMFILE with a sentence.
 */
static int making_charge_chunk(struct making *making, struct text *why)
{
	struct owner *owner = making->allocation->owner;
	int r;

	pthread_mutex_lock(&making->broker->registry.lock);
	r = share_take(owner, SHARE_DESCRIPTORS, 1);
	if (r < 0)
		share_explain(owner, SHARE_DESCRIPTORS, 1, why);
	pthread_mutex_unlock(&making->broker->registry.lock);
	return r;
}

/* Makes another chunk and takes a cell. Returns: as block_new(). */
static int making_chunk(struct making *making, struct text *why)
{
	struct allocation *allocation = making->allocation;
	struct owner *owner = allocation->owner;
	struct block *block;
	int r = making_charge_chunk(making, why);

	if (r < 0)
		return r;
	r = block_new(&block, &making->broker->memory, allocation_place(allocation),
		      making_is_host(making) ? HOST_CHUNK_SIZE : CHUNK_SIZE,
		      &making->failure);
	if (r < 0) {
		pthread_mutex_lock(&making->broker->registry.lock);
		share_give(owner, SHARE_DESCRIPTORS, 1);
		pthread_mutex_unlock(&making->broker->registry.lock);
		return r;
	}
	block->payer = owner;
	return cell_get_in(owner->pool, block, allocation->size, &allocation->block,
			   &allocation->cell, &allocation->address);
}

/* Pages of a new memfd are zero; a cell has the bytes of the allocation before. */
static void making_zero_host(struct making *making)
{
	struct allocation *allocation = making->allocation;

	if (allocation->block->chunk)
		memset(block_bytes_at(allocation->block, allocation->address), 0,
		       allocation->size);
	allocation->zeroed = true;
}

static void make_memory_ended(struct making *making, int r)
{
	if (r == 0 && making_is_host(making))
		making_zero_host(making);
	if (r == 0)
		making_done(making);
	else if (r == -ENOMEM && !making_is_host(making))
		making_no_memory(making);
	else
		making_failed_call(making, -r);
}

static void make_memory(struct task *task)
{
	struct making *making = container_of(task, struct making, task);
	struct allocation *allocation = making->allocation;
	_cleanup_text_ struct text why = TEXT_INIT;
	int r;

	if (making_is_cell(making)) {
		r = making_cell(making);
		if (r == -EAGAIN)
			r = making_chunk(making, &why);
	} else {
		r = block_new(&allocation->block, &making->broker->memory,
			      allocation_place(allocation), allocation->size,
			      &making->failure);
		if (r == 0)
			allocation->address = allocation->block->address;
	}
	if (why.length)
		making_failed_share(making, -r, text_string(&why));
	else
		make_memory_ended(making, r);
}

/* Runs a step in a thread of the crew, because the step may take long. */
static void making_run(struct making *making, void (*run)(struct task *task))
{
	struct broker *broker = making->broker;

	making->task.run = run;
	pthread_mutex_lock(&broker->registry.lock);
	making_waits(making);
	pthread_mutex_unlock(&broker->registry.lock);
	crew_add(&broker->crew, making->allocation->owner->uid, &making->task);
}

/* Host memory up to this size is made at once: all of its pages are made, too. */
#define MADE_AT_ONCE ((uint64_t)1 << 20)

/* Device and host memory: what takes no driver call is made at once, the rest by the
 * crew. */
static void make_durable(struct making *making)
{
	const struct allocation *allocation = making->allocation;
	int r = -EAGAIN;

	making->failure = (struct cuda_failure)CUDA_FAILURE_NONE;
	making->task.run = make_memory;
	if (making_is_cell(making))
		r = making_pool(making) ? making_cell(making) : -ENOMEM;
	if (r != -EAGAIN)
		make_memory_ended(making, r);
	else if (making_is_host(making) && allocation->size <= MADE_AT_ONCE)
		make_memory(&making->task);
	else
		making_run(making, make_memory);
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

static enum begun make_in_worker_begin(struct op *op)
{
	struct allocation *allocation =
		container_of(op, struct making_op, op)->making->allocation;

	op->ask.request = (struct wire_request){
		.op = WIRE_ALLOC,
		.flags = making_flags(allocation),
		.device = allocation->device,
		.length = allocation->size,
	};
	return OP_RUN;
}

/* The end of a process examines all allocations, including those being made. */
static void make_in_worker_note(struct op *op, const struct wire_reply *reply)
{
	struct making *making = container_of(op, struct making_op, op)->making;

	making->allocation->address = reply->value[0];
	making->allocation->worker_epoch = op->asked_epoch;
	making->allocation->zeroed = true;
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
		text_printf(&text, "allocation %s of %s: %s", making->allocation->name,
			    size_text(making->allocation->size),
			    text_string(&op->sentence));
		making_failed(making, op->error, text_string(&text));
	}
}

static const struct op_class make_in_worker_class = {
	.what = "allocation",
	.begin = make_in_worker_begin,
	.note = make_in_worker_note,
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

void making_start(struct making *making)
{
	static void (*const makers[N_KINDS])(struct making *) = {
		[KIND_DEVICE] = make_durable,	 [KIND_HOST] = make_durable,
		[KIND_DIRECT] = make_in_worker,	 [KIND_ASYNC] = make_in_worker,
		[KIND_MANAGED] = make_in_worker,
	};
	struct broker *broker = making->broker;

	pthread_mutex_lock(&broker->registry.lock);
	making->n_arrived = broker->reclaim.n_arrived[making->allocation->device];
	pthread_mutex_unlock(&broker->registry.lock);
	makers[making->allocation->kind](making);
}
