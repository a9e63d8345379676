/* SPDX-License-Identifier: MIT */
/*
 * Makes allocations.
 *
 * The name is taken first, in state MAKING, so that only one of two requests for a name
 * goes on. Then the memory is made, by kind: small device memory comes from an existing
 * slab; the work queue makes other device memory and host memory, because the driver or
 * the kernel may take long; direct, async and managed memory comes from the owner's
 * worker. Finally the allocation is published, or its name is freed and the command gets
 * the error.
 *
 * When a device is full, no_memory.c goes on.
 *
 * The owner is charged for memory before it is made, for a whole slab with the slab's
 * first cell. A request beyond the owner's limit is parked in the same way while memory
 * of that owner is being reclaimed.
 */
#include "memops/allocate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/crash.h"
#include "base/descriptor.h"
#include "base/number.h"
#include "memops/lease.h"
#include "memops/lifetime.h"
#include "memops/no_memory.h"
#include "memops/release.h"
#include "memops/spare_blocks.h"
#include "memops/still_mapped.h"
#include "memory/slab.h"
#include "model/journal.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/shares.h"
#include "op/op.h"
#include "process/processes.h"
#include "process/user_lanes.h"

#define MAKE_TRIES 3
/* Blocks that a request which finds the limit reached asks the kernel about. */
#define MAPPED_LOOKS 16

/* ---- the end ---- */

void alloc_request_waits(struct alloc_request *alloc)
{
	if (!alloc->completion)
		return;
	alloc->completion->began = true;
	completion_hold(alloc->completion, &alloc->completion, NULL);
}

/* Ends the charge for a block that was not made. Under registry.lock. */
static void alloc_request_uncharge(struct alloc_request *alloc)
{
	const struct allocation *allocation = alloc->allocation;

	if (!alloc->charged)
		return;
	share_undo(allocation->owner, place_share(allocation_place(allocation)),
		   alloc->charged);
	share_give(allocation->owner, SHARE_DESCRIPTORS, alloc->needs_slab);
	alloc->charged = 0;
}

/*
 * Whether the process that made the memory has ended already: the checkpoint did not
 * include the new allocation. Under registry.lock.
 */
static bool alloc_request_has_missed(struct alloc_request *alloc)
{
	const struct allocation *allocation = alloc->allocation;

	return !kind_is_durable(allocation->kind) && alloc->completion &&
	       !worker_runs(allocation->owner->worker, allocation->worker_epoch) &&
	       alloc->n_missed++ < MAKE_TRIES;
}

static void alloc_request_done(struct alloc_request *alloc)
{
	struct broker *broker = alloc->broker;
	struct allocation *allocation = alloc->allocation;
	struct token token = { allocation->slot, allocation->slot_generation };
	void (*made)(struct completion * completion, struct token token);
	struct completion *completion;

	pthread_mutex_lock(&broker->registry->lock);
	if (alloc_request_has_missed(alloc)) {
		pthread_mutex_unlock(&broker->registry->lock);
		alloc_request_start(alloc);
		return;
	}
	alloc_request_wait_no_more(alloc);
	share_give(allocation->owner, SHARE_WAITS, alloc->pays_wait);
	alloc->pays_wait = false;
	completion = completion_take(&alloc->completion);
	registry_less_busy(broker->registry);
	alloc_request_uncharge(alloc);
	if (!completion) {
		allocation_release(broker, allocation);
		free(alloc);
		return;
	}
	if (allocation->block) {
		allocation->block_record = allocation->block->record;
		allocation->block_generation = allocation->block->record_generation;
	}
	allocation_publish(broker->registry, allocation);
	journal_event(broker->journal,
		      "alloc allocations/%s id=%llu kind=%s size=%llu uid=%u pid=%d",
		      allocation_name(allocation).text,
		      (unsigned long long)allocation->id, kind_name(allocation->kind),
		      (unsigned long long)allocation->size, allocation->owner->uid,
		      alloc->pid);
	if (lifetime_is_over(allocation))
		allocation_release(broker, allocation);
	else
		pthread_mutex_unlock(&broker->registry->lock);

	made = alloc->made;
	free(alloc);
	made(completion, token);
}

void alloc_request_drop(struct alloc_request *alloc)
{
	struct broker *broker = alloc->broker;
	struct allocation *allocation = alloc->allocation;

	alloc_request_wait_no_more(alloc);
	registry_less_busy(broker->registry);
	alloc_request_uncharge(alloc);
	share_give(allocation->owner, SHARE_WAITS, alloc->pays_wait);
	if (!kind_is_durable(allocation->kind)) {
		allocation->owner->n_in_worker--;
		crash_let_go();
	}
	lifetime_leave(allocation);
	allocation_withdraw(broker->registry, allocation);
	allocation_free(broker->registry, allocation);
	free(alloc);
}

void alloc_request_failed(struct alloc_request *alloc, int error, const char *sentence)
{
	struct broker *broker = alloc->broker;
	struct completion *completion;

	pthread_mutex_lock(&broker->registry->lock);
	completion = completion_take(&alloc->completion);
	alloc_request_drop(alloc);
	pthread_mutex_unlock(&broker->registry->lock);
	if (completion)
		completion->done(completion, -error, sentence, 0);
}

struct full_name alloc_request_name(const struct alloc_request *alloc)
{
	struct full_name name;

	pthread_mutex_lock(&alloc->broker->registry->lock);
	name = allocation_name(alloc->allocation);
	pthread_mutex_unlock(&alloc->broker->registry->lock);
	return name;
}

void alloc_request_failed_call(struct alloc_request *alloc, int error)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	text_printf(&text, "allocation %s of %s%s: %s", alloc_request_name(alloc).text,
		    size_text(alloc->allocation->size),
		    alloc->allocation->kind == KIND_HOST ? " of host memory" : "",
		    error == EMFILE ? DESCRIPTORS_GONE : strerror(error));
	text_add_call(&text, alloc->failure.call, alloc->failure.result);
	alloc_request_failed(alloc, error, text_string(&text));
}

void alloc_request_failed_share(struct alloc_request *alloc, int error, const char *why)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	text_printf(&text, "allocation %s: %s", alloc_request_name(alloc).text, why);
	alloc_request_failed(alloc, error, text_string(&text));
}

/* ---- by kind ---- */

static struct slab_pool *alloc_request_pool(struct alloc_request *alloc)
{
	struct broker *broker = alloc->broker;
	struct owner *owner = alloc->allocation->owner;

	pthread_mutex_lock(&broker->registry->lock);
	if (!owner->pool)
		owner->pool = slab_pool_new(broker->memory);
	pthread_mutex_unlock(&broker->registry->lock);
	return owner->pool;
}

bool allocation_is_cell(enum allocation_kind kind, uint64_t size, uint16_t mode,
			enum guard guard)
{
	uint64_t most = kind == KIND_HOST ? HOST_CELL_MAX : CELL_MAX;

	return kind_is_durable(kind) && size <= most && !(mode & 066) && !guard;
}

uint32_t allocation_place(const struct allocation *allocation)
{
	return allocation->kind == KIND_HOST ? PLACE_HOST : allocation->device;
}

static bool alloc_request_is_cell(const struct alloc_request *alloc)
{
	const struct allocation *allocation = alloc->allocation;

	return allocation_is_cell((enum allocation_kind)allocation->kind,
				  allocation->size, allocation->mode,
				  (enum guard)allocation->guard);
}

static bool alloc_request_is_host(const struct alloc_request *alloc)
{
	return alloc->allocation->kind == KIND_HOST;
}
/* Returns: 0; -ENOMEM; -EAGAIN when another slab is needed. */
static int alloc_request_cell(struct alloc_request *alloc)
{
	struct allocation *allocation = alloc->allocation;

	return cell_get(allocation->owner->pool, allocation_place(allocation),
			allocation->size, &allocation->block, &allocation->cell,
			&allocation->address);
}

/* Makes a block that the owner has been charged for. Returns: as block_new(). */
static int alloc_request_block(struct alloc_request *alloc, uint64_t size,
			       enum guard guard, struct block **ret_block)
{
	const struct allocation *allocation = alloc->allocation;
	int r = block_new(ret_block, alloc->broker->memory, allocation_place(allocation),
			  size, guard, &alloc->failure);

	if (r < 0)
		return r;
	(*ret_block)->payer = allocation->owner;
	(*ret_block)->pays_descriptor = alloc->needs_slab;
	alloc->charged = 0;
	return 0;
}

static uint64_t alloc_request_slab_size(const struct alloc_request *alloc)
{
	return alloc_request_is_host(alloc) ? HOST_SLAB_SIZE : SLAB_SIZE;
}

/* Makes another slab and takes a cell. Returns: as block_new(). */
static int alloc_request_slab(struct alloc_request *alloc)
{
	struct allocation *allocation = alloc->allocation;
	struct block *block;
	int r = alloc_request_block(alloc, alloc_request_slab_size(alloc), GUARD_NONE,
				    &block);

	if (r < 0)
		return r;
	return cell_get_in(allocation->owner->pool, block, allocation->size,
			   &allocation->block, &allocation->cell, &allocation->address);
}

/*
 * Pages of a new memfd are zero. A cell has the bytes of the allocation before, and an
 * orphan may still write them (process/orphans.h): its zeros are owed, and come with the
 * first use, which waits for orphans.
 */
static void alloc_request_note_zeros(struct alloc_request *alloc)
{
	struct allocation *allocation = alloc->allocation;

	if (!allocation->block->slab)
		allocation->zeros_from = allocation->size;
}

static void make_memory_ended(struct alloc_request *alloc, int r)
{
	if (r == 0 && alloc_request_is_host(alloc))
		alloc_request_note_zeros(alloc);
	if (r == 0)
		alloc_request_done(alloc);
	else if (r == -ENOMEM && (alloc->patient || !alloc_request_is_host(alloc)))
		alloc_request_no_memory(alloc);
	else
		alloc_request_failed_call(alloc, -r);
}

static void make_memory(struct task *task)
{
	struct alloc_request *alloc = container_of(task, struct alloc_request, task);
	struct allocation *allocation = alloc->allocation;
	int r;

	if (alloc_request_is_cell(alloc)) {
		r = alloc_request_cell(alloc);
		if (r == -EAGAIN)
			r = alloc_request_slab(alloc);
	} else {
		r = alloc_request_block(alloc, allocation->size,
					(enum guard)allocation->guard,
					&allocation->block);
		if (r == 0)
			allocation->address =
				block_address_for(allocation->block, allocation->size);
	}
	make_memory_ended(alloc, r);
}

void alloc_request_run(struct alloc_request *alloc, void (*run)(struct task *task))
{
	uint64_t whose = alloc->allocation->owner->uid;

	if (alloc->place.joined || alloc->waiter.among)
		whose |= WORKQUEUE_TRIES;
	alloc->task.run = run;
	workqueue_add(alloc->broker->workqueue, whose, &alloc->task);
}

/* Host memory up to this size is made at once. The kernel makes all pages, too. */
#define MADE_AT_ONCE ((uint64_t)1 << 20)

/* Makes device or host memory: at once without a driver call, else in the work queue. */
static void make_durable(struct alloc_request *alloc)
{
	const struct allocation *allocation = alloc->allocation;
	int r = -EAGAIN;

	alloc->failure = (struct cuda_failure)CUDA_FAILURE_NONE;
	alloc->task.run = make_memory;
	alloc->task.length = allocation->kind == KIND_HOST
				     ? task_length_of_filling(allocation->size)
				     : task_length_of_call(allocation->size);
	if (alloc_request_is_cell(alloc))
		r = alloc_request_pool(alloc) ? alloc_request_cell(alloc) : -ENOMEM;
	if (r != -EAGAIN) {
		make_memory_ended(alloc, r);
	} else if (!alloc->charged) {
		alloc->needs_slab = true;
		alloc_request_start(alloc);
	} else if (alloc_request_is_host(alloc) && allocation->size <= MADE_AT_ONCE) {
		make_memory(&alloc->task);
	} else {
		pthread_mutex_lock(&alloc->broker->registry->lock);
		alloc_request_waits(alloc);
		alloc_request_run(alloc, make_memory);
		pthread_mutex_unlock(&alloc->broker->registry->lock);
	}
}

struct alloc_request_op {
	struct op op;
	struct alloc_request *alloc;
};

static uint32_t alloc_request_flags(const struct allocation *allocation)
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
		container_of(op, struct alloc_request_op, op)->alloc->allocation;

	op->request.record = (struct wire_request){
		.op = WIRE_ALLOC,
		.flags = alloc_request_flags(allocation),
		.device = allocation->device,
		.length = allocation->size,
	};
	return OP_RUN;
}

/* The end of a process examines all allocations, including those being made. */
static void make_in_worker_note(struct op *op, const struct wire_reply *reply)
{
	struct alloc_request *alloc =
		container_of(op, struct alloc_request_op, op)->alloc;

	alloc->allocation->address = reply->value[0];
	alloc->allocation->worker_epoch = op->asked_epoch;
	alloc->allocation->zeros_from = alloc->allocation->size;
}

static void make_in_worker_finish(struct op *op)
{
	struct alloc_request *alloc =
		container_of(op, struct alloc_request_op, op)->alloc;
	_cleanup_text_ struct text text = TEXT_INIT;

	if (!op->error) {
		alloc_request_done(alloc);
	} else if (op->error == ENOMEM) {
		alloc->failure = op->failure;
		alloc_request_no_memory(alloc);
	} else {
		text_printf(
			&text, "allocation %s of %s: %s", alloc_request_name(alloc).text,
			size_text(alloc->allocation->size), text_string(&op->sentence));
		alloc_request_failed(alloc, op->error, text_string(&text));
	}
}

static const struct op_class make_in_worker_class = {
	.what = "allocation",
	.begin = make_in_worker_begin,
	.note = make_in_worker_note,
	.quiet = true,
	.remakable = true,
};

static void make_in_worker(struct alloc_request *alloc)
{
	struct broker *broker = alloc->broker;
	struct allocation *allocation = alloc->allocation;
	_cleanup_text_ struct text why = TEXT_INIT;
	struct op *op, *ready = NULL;
	int r = -ENOMEM;

	op = op_new(sizeof(struct alloc_request_op), &make_in_worker_class, broker,
		    allocation->owner);
	pthread_mutex_lock(&broker->registry->lock);
	if (op) {
		container_of(op, struct alloc_request_op, op)->alloc = alloc;
		op->finish = make_in_worker_finish;
		op->worker = worker_of(broker, allocation->owner);
		op->work.stream = allocation->stream;
		r = op->worker ? op_add(op, &ready) : -ENOMEM;
	}
	if (r == 0)
		alloc_request_waits(alloc);
	else if (share_is_refusal(r))
		share_explain(op->payer, &why);
	else
		text_printf(&why, r == -ESTALE ? "the broker is shutting down"
					       : "no memory in the broker");
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(ready);
	if (r < 0) {
		op_free(op);
		alloc_request_failed_share(alloc, -r, text_string(&why));
	}
}

/* ---- the owner's limits ---- */

/*
 * Charges the owner, once; cells of slabs are paid for. Under registry.lock. Returns: 0;
 * -EDQUOT, -EMFILE, -ENOMEM.
 */
static int alloc_request_charge(struct alloc_request *alloc)
{
	struct allocation *allocation = alloc->allocation;
	uint32_t place = allocation_place(allocation);
	struct owner *owner = allocation->owner;
	uint64_t bytes;
	int r;

	if (!kind_is_durable((enum allocation_kind)allocation->kind))
		return allocation_charge(allocation);
	if (alloc->charged || (alloc_request_is_cell(alloc) && !alloc->needs_slab))
		return 0;
	bytes = block_size_for(alloc->broker->memory, place,
			       alloc->needs_slab ? alloc_request_slab_size(alloc)
						 : allocation->size);
	r = share_take(owner, SHARE_DESCRIPTORS, alloc->needs_slab);
	if (r < 0)
		return r;
	r = share_take(owner, place_share(place), bytes);
	if (r < 0)
		share_give(owner, SHARE_DESCRIPTORS, alloc->needs_slab);
	else
		alloc->charged = bytes;
	return r;
}

/* Whether the owner's limit leaves room for the request once all else is free. */
static bool alloc_request_could_fit(const struct alloc_request *alloc)
{
	const struct allocation *allocation = alloc->allocation;
	uint32_t place = allocation_place(allocation);
	uint64_t size =
		alloc->needs_slab ? alloc_request_slab_size(alloc) : allocation->size;

	return block_size_for(alloc->broker->memory, place, size) <=
	       share_limit(allocation->owner, place_share(place));
}

/* Waits for memory of the owner on its way back; else the request fails. */
static void alloc_request_wait_beyond(struct alloc_request *alloc)
{
	const struct reclaim_from from = { allocation_place(alloc->allocation),
					   alloc->allocation->owner };
	struct broker *broker = alloc->broker;
	_cleanup_text_ struct text why = TEXT_INIT;
	int r = 0;

	pthread_mutex_lock(&broker->registry->lock);
	if (alloc_request_could_fit(alloc))
		r = alloc_request_park(alloc, from);
	if (r > 0) {
		pthread_mutex_unlock(&broker->registry->lock);
		return;
	}
	if (r == 0)
		r = alloc_request_charge(alloc);
	if (share_is_refusal(r))
		share_explain(from.owner, &why);
	else if (r < 0)
		text_printf(&why, "no memory in the broker");
	pthread_mutex_unlock(&broker->registry->lock);
	if (r == 0) {
		alloc_request_start(alloc);
		return;
	}
	if (alloc->waited)
		text_printf(&why, "; memory that was freed has not come back within %g s",
			    alloc_request_parked_ms(alloc) / 1000.0);
	alloc_request_failed_share(alloc, -r, text_string(&why));
}

static void alloc_request_look_run(struct task *task)
{
	struct alloc_request *alloc = container_of(task, struct alloc_request, task);

	still_mapped_look(alloc->broker, alloc->allocation->owner, MAPPED_LOOKS);
	alloc_request_wait_beyond(alloc);
}

/*
 * The owner's limit has no room. Gives back the owner's empty slab, and freed memory that
 * programs have let go of.
 */
static void alloc_request_beyond(struct alloc_request *alloc)
{
	const uint32_t place = allocation_place(alloc->allocation);
	struct owner *owner = alloc->allocation->owner;
	struct broker *broker = alloc->broker;
	bool looks;

	alloc->beyond = true;
	spare_block_give_back(broker, owner, place);
	pthread_mutex_lock(&broker->registry->lock);
	/* Nobody in the queue waits for memory of this owner. */
	alloc_request_wait_no_more(alloc);
	looks = place == PLACE_HOST && owner->still_mapped;
	pthread_mutex_unlock(&broker->registry->lock);
	if (!looks) {
		alloc_request_wait_beyond(alloc);
		return;
	}
	alloc->task = (struct task){ .run = alloc_request_look_run };
	user_lane_add(broker, LANE_FILES, owner->uid, &alloc->task);
}

void alloc_request_start(struct alloc_request *alloc)
{
	static void (*const makers[N_KINDS])(struct alloc_request *) = {
		[KIND_DEVICE] = make_durable,	 [KIND_HOST] = make_durable,
		[KIND_DIRECT] = make_in_worker,	 [KIND_ASYNC] = make_in_worker,
		[KIND_MANAGED] = make_in_worker,
	};
	struct broker *broker = alloc->broker;
	struct owner *owner = alloc->allocation->owner;
	_cleanup_text_ struct text why = TEXT_INIT;
	int r;

	pthread_mutex_lock(&broker->registry->lock);
	alloc->n_arrived =
		broker->reclaim->n_arrived[allocation_place(alloc->allocation)];
	alloc->n_own_arrived = owner->n_arrived;
	r = alloc_request_charge(alloc);
	if (r == -EMFILE)
		share_explain(owner, &why);
	pthread_mutex_unlock(&broker->registry->lock);
	alloc->beyond = r == -EDQUOT;
	if (r == 0)
		makers[alloc->allocation->kind](alloc);
	else if (r == -EDQUOT)
		alloc_request_beyond(alloc);
	else if (r == -EMFILE)
		alloc_request_failed_share(alloc, EMFILE, text_string(&why));
	else
		make_memory_ended(alloc, r);
}
