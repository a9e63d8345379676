/* SPDX-License-Identifier: MIT */
/*
 * Data of allocations: reads and writes for the view.
 *
 * Host memory is copied here, through the broker's mapping of the memfd. All other memory
 * is copied by a worker, through a staging slot. A write is answered when the request has
 * been sent to the worker: the slot keeps the bytes until the end, even if the worker
 * dies, and all later uses are ordered behind the write. If the write fails later, close
 * or fsync reports the error, as for any file (sync.c).
 *
 * The mover's slots serve all users. So a write stays in such a slot only if the mover
 * alone can delay it. A write that waits for a kernel or for another worker is kept in
 * ordinary memory, counted in the caller's share.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/completion.h"
#include "memops/data.h"
#include "memops/data_answer.h"
#include "memops/fill.h"
#include "memops/readahead.h"
#include "memory/block.h"
#include "model/access.h"
#include "model/allocation.h"
#include "model/registry.h"
#include "model/shares.h"
#include "op/op.h"
#include "process/broker.h"
#include "process/processes.h"

struct transfer {
	struct op op;
	struct buffer
		buffer;	  /* write: has the bytes; memory NULL: op.staged.slot has them */
	uint64_t charged; /* write: bytes of SHARE_WRITES */
	uint8_t *host;	  /* host memory: where the use begins */
	struct completion *early; /* answered before the op is done; NULL: none */
	const uint8_t *bytes;	  /* write: in buffer or slot; read: what was read */
	size_t length; /* length of the answer: of the use, or a part of the readahead */
};

static void transfer_give_back(struct transfer *transfer)
{
	struct op *op = &transfer->op;

	op_slot_release(op->worker, op->staged.slot);
	broker_buffer_put(op->broker, &transfer->buffer);
	if (!transfer->charged)
		return;
	pthread_mutex_lock(&op->broker->registry->lock);
	share_give(op->payer, SHARE_WRITES, transfer->charged);
	transfer->charged = 0;
	pthread_mutex_unlock(&op->broker->registry->lock);
}

static void transfer_finish(struct op *op)
{
	struct transfer *transfer = container_of(op, struct transfer, op);
	struct completion *wait = op->completion;
	int error = data_errno(op->error);

	/* Failed readahead without a reader is no error. */
	if (op->error && (wait || op->work.uses[0].write))
		data_fail(op->broker, op->uid, op->pid, op_name(op), error,
			  text_string(&op->sentence));
	if (wait && op->error)
		data_answer(wait, -error, 0);
	else if (wait)
		wait->done(wait, 0, transfer->bytes, transfer->length);
	transfer_give_back(transfer);
}

static struct transfer *transfer_new(struct broker *broker, const struct op_class *class,
				     struct allocation *allocation,
				     const struct caller *caller)
{
	struct op *op = op_new(sizeof(struct transfer), class, broker, allocation->owner);
	struct transfer *transfer = op ? container_of(op, struct transfer, op) : NULL;

	if (!op)
		return NULL;
	data_charge(op, caller);
	transfer->buffer.slot = -1;
	op->finish = transfer_finish;
	if (allocation->kind == KIND_HOST)
		return transfer;
	op->worker = allocation_worker(broker, allocation);
	if (!op->worker) {
		op_free(op);
		return NULL;
	}
	return transfer;
}

static void read_begin_ahead(struct broker *broker, struct allocation *allocation,
			     const struct caller *caller, uint64_t offset,
			     uint64_t length, struct op **ready);

/* Frees a transfer that was not added, and answers. No lock held. */
static void transfer_drop(struct transfer *transfer, struct completion *wait)
{
	transfer_give_back(transfer);
	data_drop_op(&transfer->op, wait);
}

/*
 * Adds the op, releases the lock and starts the op; on failure answers the wait. For a
 * sequential reader (NULL: none) readahead begins.
 */
static void transfer_run(struct transfer *transfer, struct completion *wait,
			 const struct caller *reader)
{
	struct op *op = &transfer->op;
	const struct use *use = &op->work.uses[0];
	struct broker *broker = op->broker;
	struct op *ready = NULL;
	int r;

	op->work.may_leave = true;
	r = op_add(op, &ready);
	if (r == 0) {
		op_hold(op, wait);
	} else {
		data_note_refused(op, r);
		turn_give(op, &ready);
	}
	if (r == 0 && reader)
		read_begin_ahead(broker, use->allocation, reader,
				 use->offset + use->length, use->length, &ready);
	pthread_mutex_unlock(&broker->registry->lock);
	op_start(ready);
	if (r < 0)
		transfer_drop(transfer, wait);
}

/* The bytes of a use of host memory. Under registry.lock. */
static uint8_t *host_bytes(const struct use *use)
{
	const struct allocation *allocation = use->allocation;

	return block_bytes_at(allocation->block, allocation->address + use->offset);
}

/* ---- read ---- */

static enum begun read_begin(struct op *op)
{
	struct transfer *transfer = container_of(op, struct transfer, op);
	const struct use *use = &op->work.uses[0];

	if (!op->worker) {
		/* Before the op leaves the order: the memory may be freed afterwards. */
		transfer->early = completion_take(&op->completion);
		transfer->host = host_bytes(use);
		order_set_unasked(&op->work, true);
		return OP_RUN;
	}
	if (!op_slot_get(op))
		return OP_PARKED;
	transfer->bytes =
		staging_payload(&op->worker->staging, (unsigned int)op->staged.slot);
	op->request.record = (struct wire_request){
		.op = WIRE_READ,
		.device = use->allocation->device,
		.address = use->allocation->address + use->offset,
		.length = use->length,
		.offset = staging_offset((unsigned int)op->staged.slot),
	};
	return OP_RUN;
}

static void read_run(struct op *op)
{
	const struct transfer *transfer = container_of(op, struct transfer, op);
	struct completion *early = transfer->early;

	if (op->worker) {
		op_submit(op);
		return;
	}
	if (early)
		early->done(early, 0, transfer->host, op->work.uses[0].length);
	op_done(op, 0);
}

/* Complete readahead stays in its slot until a reader takes it. */
static void read_settle(struct op *op)
{
	struct readahead *readahead = op->work.uses[0].allocation->rare->readahead;
	struct op *none = NULL;

	if (!readahead || readahead->op != op)
		return;
	if (op->error) {
		readahead_free(op->broker, readahead, &none);
		return;
	}
	readahead->slot = op->staged.slot;
	readahead->op = NULL;
	op->staged.slot = -1;
}

static const struct op_class read_class = {
	.what = "read",
	.moves = MOVED_READ,
	.begin = read_begin,
	.run = read_run,
	.settle = read_settle,
	.repeatable = true,
};

/* Begins readahead for a sequential reader. */
static void read_begin_ahead(struct broker *broker, struct allocation *allocation,
			     const struct caller *caller, uint64_t offset,
			     uint64_t length, struct op **ready)
{
	struct transfer *transfer;
	struct op *more = NULL;
	struct readahead *readahead;

	/* A lease for writing writes outside of the order. */
	if (length < AHEAD_MIN || offset >= allocation->size ||
	    allocation->kind == KIND_HOST || allocation->rare->n_write_leases)
		return;
	length = MIN(length, allocation->size - offset);
	transfer = transfer_new(broker, &read_class, allocation, caller);
	if (!transfer)
		return;
	work_use(&transfer->op.work, allocation, offset, length, false);
	transfer->op.work.unasked = true;
	transfer->length = length;
	readahead =
		readahead_new(broker, allocation, offset, length, &transfer->op, ready);
	if (!readahead || op_add(&transfer->op, &more) < 0) {
		readahead_free(broker, readahead, ready);
		op_free(&transfer->op);
	}
	op_push_all(ready, more);
}

/* Answers from the readahead, at once or when complete. Releases the lock. */
static void read_from_ahead(struct broker *broker, struct readahead *readahead,
			    const struct caller *caller, size_t length,
			    struct completion *wait)
{
	struct allocation *allocation = readahead->allocation;
	uint64_t next = readahead->offset + length;
	struct worker *worker = readahead->worker;
	struct op *ready = NULL;
	int slot = readahead->slot;

	if (readahead->op) {
		struct transfer *transfer =
			container_of(readahead->op, struct transfer, op);

		transfer->op.uid = caller->uid;
		transfer->op.pid = caller->pid;
		transfer->length = length;
		order_set_unasked(&transfer->op.work, false);
		op_hold(&transfer->op, wait);
	}
	readahead->slot = -1;
	readahead_free(broker, readahead, &ready);
	read_begin_ahead(broker, allocation, caller, next, length, &ready);
	pthread_mutex_unlock(&broker->registry->lock);

	op_start(ready);
	if (slot >= 0) {
		wait->done(wait, 0, staging_payload(&worker->staging, (unsigned int)slot),
			   length);
		op_slot_release(worker, slot);
	}
}

void broker_read(struct broker *broker, struct token token, const struct caller *caller,
		 uint64_t offset, size_t length, struct completion *wait)
{
	struct allocation *allocation = data_find(broker, token, caller, wait);
	struct transfer *transfer;
	struct readahead *readahead;
	bool goes_on;

	if (!allocation)
		return;
	if (offset >= allocation->size || length == 0) {
		pthread_mutex_unlock(&broker->registry->lock);
		data_answer(wait, 0, 0);
		return;
	}
	length = MIN(length, (size_t)WIRE_TRANSFER_MAX);
	length = MIN(length, allocation->size - offset);
	allocation_used(allocation);
	goes_on = allocation->read_next == offset;
	allocation->read_next = offset + length;
	readahead = broker->registry->shutting_down
			    ? NULL
			    : readahead_find(allocation, offset, length);
	if (readahead) {
		read_from_ahead(broker, readahead, caller, length, wait);
		return;
	}
	transfer = transfer_new(broker, &read_class, allocation, caller);
	if (!transfer) {
		data_no_memory(broker, wait);
		return;
	}
	work_use(&transfer->op.work, allocation, offset, length, false);
	transfer->length = length;
	transfer_run(transfer, wait, goes_on ? caller : NULL);
}

/* ---- write ---- */

/* Where the worker finds the bytes. */
static uint8_t *write_payload(const struct transfer *transfer)
{
	const struct op *op = &transfer->op;

	/* In a slot the GPU can read the bytes in place. */
	if (transfer->buffer.slot >= 0 || !transfer->buffer.memory)
		return (uint8_t *)transfer->bytes;
	return staging_payload(&op->worker->staging, (unsigned int)op->staged.slot);
}

static bool write_needs_slot(const struct transfer *transfer)
{
	return transfer->buffer.slot < 0 && transfer->buffer.memory &&
	       transfer->op.staged.slot < 0;
}

static enum begun write_begin(struct op *op)
{
	struct transfer *transfer = container_of(op, struct transfer, op);
	const struct use *use = &op->work.uses[0];

	/* The writer was interrupted before the write began: the write is dropped. */
	if (!op->completion)
		return OP_OVER;
	if (!op->worker) {
		transfer->host = host_bytes(use);
		return OP_RUN;
	}
	if (write_needs_slot(transfer) && !op_slot_get(op))
		return OP_PARKED;
	op->request.record = (struct wire_request){
		.op = WIRE_WRITE,
		.device = use->allocation->device,
		.address = use->allocation->address + use->offset,
		.length = use->length,
		.offset =
			(uint64_t)(write_payload(transfer) - op->worker->staging.memory),
	};
	transfer->early = completion_take(&op->completion);
	return OP_RUN;
}

static void write_run(struct op *op)
{
	struct transfer *transfer = container_of(op, struct transfer, op);
	size_t length = op->work.uses[0].length;
	uint8_t *payload;

	if (!op->worker) {
		memcpy(transfer->host, transfer->bytes, length);
		op_done(op, 0);
		return;
	}
	payload = write_payload(transfer);
	if (payload != transfer->bytes) {
		memcpy(payload, transfer->bytes, length);
		broker_buffer_put(op->broker, &transfer->buffer);
	}
	data_answer(transfer->early, 0, length);
	op_submit(op);
}

static const struct op_class write_class = {
	.what = "write",
	.moves = MOVED_WRITE,
	.begin = write_begin,
	.run = write_run,
	.settle = data_settle,
	.repeatable = true,
};

/* Under registry.lock. Returns: 0; -EBUSY. */
static int write_charge(struct transfer *transfer)
{
	uint64_t length = transfer->op.work.uses[0].length;
	int r = share_take(transfer->op.payer, SHARE_WRITES, length);

	if (r == 0)
		transfer->charged = length;
	return r;
}

/*
 * Copies the bytes out of the mover's slot: to a slot of the op's own worker if the op
 * runs now, else to ordinary memory. No lock held. Returns: 0; -ENOMEM.
 */
static int write_copy_out(struct transfer *transfer, const void *bytes, bool waits)
{
	struct op *op = &transfer->op;
	uint64_t length = op->work.uses[0].length;
	uint8_t *memory;

	if (!waits && op->worker && staging_slot_try(op->worker, &op->staged)) {
		memory = staging_payload(&op->worker->staging,
					 (unsigned int)op->staged.slot);
	} else {
		memory = malloc(length);
		if (!memory)
			return -ENOMEM;
		transfer->buffer.memory = memory;
	}
	memcpy(memory, bytes, length);
	transfer->bytes = memory;
	return 0;
}

/* Whether the bytes may stay in the mover's slot. */
static bool write_may_stay(const struct op *op, bool waits)
{
	return !waits && (!op->worker || op->worker == &op->broker->processes->mover);
}

/*
 * Gives the bytes to the transfer, with the buffer if possible. With registry.lock held,
 * released meanwhile. Returns: 0; negative, noted in the op, and the lock is released.
 */
static int write_take_bytes(struct transfer *transfer, const void *bytes,
			    struct buffer *buffer)
{
	struct op *op = &transfer->op;
	bool waits = op_would_wait(op), in_slot = buffer->slot >= 0;
	pthread_mutex_t *lock = &op->broker->registry->lock;
	int r = 0;

	if (!in_slot || !write_may_stay(op, waits))
		r = write_charge(transfer);
	if (r < 0) {
		data_note_refused(op, r);
		pthread_mutex_unlock(lock);
		return r;
	}
	if (!in_slot || !transfer->charged) {
		transfer->buffer = *buffer;
		transfer->bytes = bytes;
		if (in_slot && op->worker)
			turn_take_beyond(op);
		*buffer = (struct buffer){ .slot = -1 };
		return 0;
	}
	/* In case there is no memory; also notes the name, in case of a free. */
	data_note_refused(op, -ENOMEM);
	pthread_mutex_unlock(lock);
	r = write_copy_out(transfer, bytes, waits);
	if (r < 0)
		return r;
	text_clear(&op->sentence);
	op->error = 0;
	pthread_mutex_lock(lock);
	return 0;
}

void broker_write(struct broker *broker, struct writer *writer,
		  const struct caller *caller, uint64_t offset, const void *bytes,
		  size_t length, struct buffer *buffer, struct completion *wait)
{
	const struct token token = writer->token;
	struct allocation *allocation = data_find_to_write(broker, token, caller, wait);
	struct transfer *transfer;

	if (!allocation)
		return;
	if (length == 0) {
		pthread_mutex_unlock(&broker->registry->lock);
		data_answer(wait, 0, 0);
		return;
	}
	if (offset >= allocation->size) {
		data_no_space(broker, allocation, caller, offset, length, wait);
		return;
	}
	transfer = transfer_new(broker, &write_class, allocation, caller);
	if (!transfer) {
		data_no_memory(broker, wait);
		return;
	}
	transfer->op.work.writer = writer_queues(writer);
	transfer->length = MIN((uint64_t)length, allocation->size - offset);
	work_use(&transfer->op.work, allocation, offset, transfer->length, true);
	if (write_take_bytes(transfer, bytes, buffer) < 0) {
		transfer_drop(transfer, wait);
		return;
	}
	/* The lock may have been released meanwhile. */
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	if (!allocation || allocation->sealed) {
		transfer->op.error = allocation ? EPERM : ESTALE;
		text_printf(&transfer->op.sentence, "allocation %s has been %s",
			    transfer->op.name, allocation ? "sealed" : "freed");
		pthread_mutex_unlock(&broker->registry->lock);
		transfer_drop(transfer, wait);
		return;
	}
	allocation_written(allocation);
	transfer_run(transfer, wait, NULL);
}

int broker_host_fd(struct broker *broker, struct token token)
{
	struct allocation *allocation;
	int fd = -ESTALE;

	pthread_mutex_lock(&broker->registry->lock);
	allocation = allocation_get(broker->registry, token.slot, token.generation);
	if (allocation)
		/*
		 * A program that maps a shared block has the whole block. The kernel maps
		 * a file from the file's start, and a guarded allocation may begin later.
		 */
		fd = allocation->kind == KIND_HOST && !allocation->block->slab &&
				     allocation->address == allocation->block->address
			     ? block_share(allocation->block)
			     : -ENODEV;
	pthread_mutex_unlock(&broker->registry->lock);
	return fd;
}
