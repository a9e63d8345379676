/* SPDX-License-Identifier: MIT */
/* Memory of the last broker: blocks, allocations, lifetimes, leases. */
#include "api/resume_private.h"

#include <errno.h>
#include <utlist.h>

#include "base/crash.h"
#include "base/def.h"
#include "base/jobs.h"
#include "memops/give_back.h"
#include "memops/lease.h"
#include "memops/lifetime.h"
#include "memops/move.h"
#include "memops/release.h"
#include "memops/still_mapped.h"
#include "memops/tensors.h"
#include "memory/block.h"
#include "memory/kept.h"
#include "memory/slab.h"
#include "model/folder.h"
#include "model/origin.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "model/shares.h"
#include "op/op.h"
#include "process/broker.h"
#include "process/worker.h"
#include "record/records.h"
#include "record/texts.h"

bool *resume_leased(const struct resume *resume, uint32_t n)
{
	bool *leased = calloc(n, sizeof(*leased));
	const struct lease_record *lease;

	for (uint32_t i = 1;
	     leased && (lease = records_next(resume->records, RECORD_LEASE, &i)); i++)
		leased[lease->allocation] = true;
	return leased;
}

/* `until=close` has no lifetime in the records: its descriptor died with the broker. */
bool resume_is_ending(const struct allocation_record *record)
{
	return record->flags & RECORD_FREED ||
	       (record->flags & RECORD_UNTIL && !record->lifetime);
}

/* A new cell is zeroed without a lock, so the block is mapped now. */
static int resume_slab(struct block *block, struct broker *broker,
		       const struct block_record *record)
{
	struct owner *owner = owner_make(broker->registry, record->payer);

	if (owner && !owner->pool)
		owner->pool = slab_pool_new(broker->memory);
	if (!owner || !owner->pool)
		return -ENOMEM;
	block->pays_descriptor = true;
	share_take_beyond(owner, SHARE_DESCRIPTORS, 1);
	if (block_map(block) < 0)
		return -ENOMEM;
	return slab_restore(owner->pool, block, record->cells - 1);
}

/* The block of an allocation. Returns: 0; -errno. */
static int resume_block(struct resume *resume, struct owner *owner, uint32_t index,
			struct block **ret_block)
{
	const struct block_record *record =
		records_get(resume->records, RECORD_BLOCK, index);
	_cleanup_close_ int fd = -1;
	int r;

	if (!resume->blocks[index]) {
		fd = kept_take(resume->broker->memory, RECORD_BLOCK, index);
		if (fd < 0)
			return -EBADF;
		r = block_restore(&resume->blocks[index], resume->broker->memory, index,
				  record, fd);
		if (r < 0)
			return r;
		(void)take_fd(&fd);
		resume->blocks[index]->payer = owner;
		share_restore(owner, place_share(record->place), record->size);
		if (record->cells)
			r = resume_slab(resume->blocks[index], resume->broker, record);
		if (r < 0)
			return r;
	} else if (!record->cells) {
		return -EEXIST;
	}
	*ret_block = resume->blocks[index];
	return 0;
}

static int resume_memory(struct resume *resume, struct allocation *allocation)
{
	int r = resume_block(resume, allocation->owner, allocation->block_record,
			     &allocation->block);

	if (r == 0 && allocation->block->slab)
		r = cell_restore(allocation->owner->pool, allocation->block,
				 allocation->cell, allocation->address);
	return r;
}

/* Returns: NULL: the block of a freed allocation is gone. */
static const struct block_record *block_of(const struct resume *resume,
					   const struct allocation_record *record)
{
	const struct block_record *block =
		records_get(resume->records, RECORD_BLOCK, record->block);

	return block && block->head.generation == record->block_generation ? block : NULL;
}

/* A freed allocation without leases is gone, even if its record is not. */
static bool is_gone(const struct resume *resume, uint32_t index,
		    const struct allocation_record *record)
{
	return record->flags & RECORD_FREED &&
	       (!block_of(resume, record) || !resume->leased[index]);
}

int resume_lifetime(struct resume *resume, uint32_t index, const void *data)
{
	const struct lifetime_record *record = data;
	int fd = kept_take(resume->broker->memory, RECORD_LIFETIME, index);

	if (fd < 0)
		return resume_fail(resume, -EBADF, "lifetime", index);
	resume->lifetimes[index] = lifetime_restore(resume->broker, index, record, fd);
	return resume->lifetimes[index] ? 0
					: resume_fail(resume, -ENOMEM, "lifetime", index);
}

/* Processes and cgroups that ended without a broker free their memory now. */
int resume_watch(const struct resume *resume)
{
	int r = 0;

	for (uint32_t i = 1; i < resume->n_lifetimes && r == 0; i++)
		r = resume->lifetimes[i] ? lifetime_begin(resume->lifetimes[i]) : 0;
	return r;
}

/* A text is of one allocation alone. Returns: 0; -errno. */
static int resume_tensors(struct resume *resume, struct allocation *allocation,
			  uint32_t index)
{
	const struct tensors_record *record =
		records_get(resume->records, RECORD_TENSORS, index);
	int fd = resume_file(resume, RECORD_TENSORS, index, record->size);

	if (fd < 0)
		return fd;
	resume->tensors[index] = tensors_restore(resume->broker, index, record, fd);
	if (!resume->tensors[index] || allocation_make_rare(allocation) < 0)
		return -ENOMEM;
	allocation->rare->tensors = resume->tensors[index];
	return 0;
}

void resume_forget_tensors(const struct resume *resume)
{
	struct records *records = resume->broker->registry->records;

	for (uint32_t i = 1; records_next(records, RECORD_TENSORS, &i); i++) {
		if (!resume->tensors[i])
			records_drop(records, RECORD_TENSORS, i);
	}
}

static int resume_origin(struct resume *resume, struct allocation *allocation,
			 uint32_t index)
{
	int r = 0;

	if (!resume->origins[index])
		r = origin_restore(allocation->owner, index,
				   records_get(resume->records, RECORD_ORIGIN, index),
				   &resume->origins[index]);
	if (r == 0)
		origin_join(resume->origins[index], allocation);
	return r;
}

/* Their last allocation was being made. */
void resume_forget_origins(const struct resume *resume)
{
	struct records *records = resume->broker->registry->records;
	const struct origin_record *origin;
	uint32_t text;

	for (uint32_t i = 1; (origin = records_next(records, RECORD_ORIGIN, &i)); i++) {
		text = origin->cgroup;
		if (resume->origins[i])
			continue;
		records_drop(records, RECORD_ORIGIN, i);
		record_text_drop(records, text);
	}
}

/* ---- allocations ---- */

#define PIECE_RECORDS 4096u
/* As many as the C library has heaps: more threads would wait for each other. */
#define REMAKE_THREADS 4
/* So many allocations ahead the processor is told what is needed next. */
#define AHEAD	   8
#define CACHE_LINE 64

static void count_names(uint32_t *counts, uint32_t folder, uint32_t n)
{
	if (n)
		(void)__atomic_fetch_add(&counts[folder], n, __ATOMIC_RELAXED);
}

/*
 * Makes the allocations of some records, still unknown to everybody. One of an owner
 * without a record is left out. Most have the owner and the folder of the one before.
 */
static void remake_job(void *userdata, uint32_t i)
{
	struct resume *resume = userdata;
	struct owner *owner = NULL;
	const struct allocation_record *record;
	uint32_t last = (i + 1) * PIECE_RECORDS, folder = 0, n_names = 0, n_ending = 0;

	for (uint32_t index = i * PIECE_RECORDS + 1;
	     (record = records_next(resume->records, RECORD_ALLOCATION, &index)) &&
	     index <= last;
	     index++) {
		n_ending += resume_is_ending(record);
		if (record->flags & RECORD_FREED)
			continue;
		if (record->folder != folder) {
			count_names(resume->n_names, folder, n_names);
			folder = record->folder;
			n_names = 0;
		}
		n_names++;
		if (!owner || owner->uid != record->owner)
			owner = owner_find(resume->broker->registry, record->owner);
		if (owner)
			resume->remade[index] = allocation_remake(owner, index, record);
	}
	count_names(resume->n_names, folder, n_names);
	(void)__atomic_fetch_add(&resume->n_ending, n_ending, __ATOMIC_RELAXED);
}

/* Makes room for all names at once. Returns: 0; -ENOMEM. */
static int begin_names(const struct resume *resume)
{
	int r = 0;

	for (uint32_t i = 0; i < resume->n_folders && r == 0; i++) {
		if (resume->n_names[i])
			r = name_table_begin(&resume_folder_at(resume, false, i)->names,
					     resume->n_names[i]);
	}
	return r;
}

/*
 * Runs once. Most of the time for an allocation is spent on waiting for memory, by
 * several processors at once.
 */
int resume_remake(struct resume *resume, uint32_t index, const void *data)
{
	uint32_t n = records_last(resume->records, RECORD_ALLOCATION);

	(void)index;
	(void)data;
	resume->n_remade = n + 1;
	resume->remade = calloc(resume->n_remade, sizeof(*resume->remade));
	resume->n_names = calloc(resume->n_folders, sizeof(*resume->n_names));
	if (!resume->remade || !resume->n_names)
		return -ENOMEM;
	jobs_run(remake_job, resume, n / PIECE_RECORDS + 1, REMAKE_THREADS);
	return begin_names(resume);
}

void resume_drop_remade(const struct resume *resume)
{
	for (uint32_t i = 0; i < resume->n_remade; i++)
		allocation_unmake(resume->remade[i]);
	free(resume->remade);
}

/* Most allocations have the owner of the one before. Returns: NULL: no memory. */
static struct owner *owner_of(struct resume *resume,
			      const struct allocation_record *record)
{
	struct owner *last = resume->last_owner;

	if (!last || last->uid != record->owner)
		last = owner_make(resume->broker->registry, record->owner);
	resume->last_owner = last;
	return last;
}

/* Another processor has made the allocation: its memory takes long to come. */
static void look_ahead(const struct resume *resume, uint32_t index)
{
	const struct allocation *next;

	if (index + AHEAD >= resume->n_remade)
		return;
	next = resume->remade[index + AHEAD / 2];
	if (next)
		__builtin_prefetch(next->entry.name);
	next = resume->remade[index + AHEAD];
	for (size_t at = 0; next && at < sizeof(*next); at += CACHE_LINE)
		__builtin_prefetch((const char *)next + at, 1);
}

static int resume_allocation_in(struct resume *resume, struct folder *folder,
				uint32_t index, const struct allocation_record *record)
{
	struct broker *broker = resume->broker;
	struct allocation *allocation;
	struct loss loss = { 0 };
	struct owner *owner;
	int r;

	if (is_gone(resume, index, record)) {
		if (block_of(resume, record))
			resume->payers[record->block] =
				owner_make(broker->registry, record->owner);
		records_drop(broker->registry->records, RECORD_ALLOCATION, index);
		return 0;
	}
	look_ahead(resume, index);
	owner = owner_of(resume, record);
	allocation = take_ptr(resume->remade[index]);
	if (owner && !allocation)
		allocation = allocation_remake(owner, index, record);
	if (!allocation)
		return resume_fail(resume, -ENOMEM, "allocation", index);
	allocation->ending = resume_is_ending(record);
	r = allocation_restore(allocation, broker->registry, folder, record);
	if (r < 0) {
		allocation_unmake(allocation);
		return resume_fail(resume, r, "allocation", index);
	}
	if (!kind_is_durable((enum allocation_kind)allocation->kind))
		r = allocation_make_rare(allocation);
	if (r == 0 && record->block)
		r = resume_memory(resume, allocation);
	if (r == 0)
		move_charge_restore(broker, allocation);
	if (r == 0 && record->tensors)
		r = resume_tensors(resume, allocation, record->tensors);
	if (r == 0 && record->origin)
		r = resume_origin(resume, allocation, record->origin);
	if (r == 0 && !(record->flags & RECORD_FREED) && record->lifetime)
		r = lifetime_add(resume->lifetimes[record->lifetime], allocation);
	if (r < 0)
		return resume_fail(resume, r, "allocation", index);
	resume->allocations[index] = allocation;
	allocation_count(broker->registry, allocation);
	/* The last broker may have died during a move for a lease. */
	move_charge_settle(broker, allocation);
	if (!kind_is_durable((enum allocation_kind)allocation->kind)) {
		owner->n_in_worker++;
		crash_hold();
		worker_lose_allocation(broker, allocation, "ended with the broker",
				       &loss);
	}
	return 0;
}

int resume_allocation(struct resume *resume, uint32_t index, const void *data)
{
	const struct allocation_record *record = data;

	if (record->flags & RECORD_FREED)
		return 0;
	return resume_allocation_in(
		resume, resume_folder_at(resume, false, record->folder), index, record);
}

/* A freed allocation has no slot any more, and takes none from the others. */
int resume_freed(struct resume *resume, uint32_t index, const void *data)
{
	const struct allocation_record *record;
	int r = 0;

	(void)data;
	if (!resume->n_ending)
		return 0;
	for (index = 1; r == 0 && (record = records_next(resume->records,
							 RECORD_ALLOCATION, &index));
	     index++) {
		if (!(record->flags & RECORD_FREED))
			continue;
		r = resume_allocation_in(resume, resume_folder_at(resume, false, 0),
					 index, record);
		crash_point("resume: an object is made again");
	}
	return r;
}

int resume_lease(struct resume *resume, uint32_t index, const void *data)
{
	const struct lease_record *record = data;
	struct allocation *allocation = resume->allocations[record->allocation];
	int r;

	if (!allocation) {
		records_drop(resume->broker->registry->records, RECORD_LEASE, index);
		return 0;
	}
	r = lease_restore(resume->broker, allocation, index, record);
	return r < 0 ? resume_fail(resume, r, "lease", index) : 0;
}

void resume_frees(struct resume *resume)
{
	struct op *ready = NULL;

	if (!resume->n_ending)
		return;
	for (uint32_t i = 1; records_next(resume->records, RECORD_ALLOCATION, &i); i++) {
		struct allocation *allocation = resume->allocations[i];

		if (!allocation || !allocation->ending)
			continue;
		allocation->ending = false;
		allocation_release_held(resume->broker, allocation, NULL, &ready);
	}
	pthread_mutex_unlock(&resume->broker->registry->lock);
	op_start(ready);
	pthread_mutex_lock(&resume->broker->registry->lock);
}

static struct owner *payer_of(const struct resume *resume, uint32_t index,
			      const struct block_record *block)
{
	return block->cells || block->freed
		       ? owner_find(resume->broker->registry, block->payer)
		       : resume->payers[index];
}

/*
 * Programs may have freed memory of the host mapped. Where the last broker knew so, the
 * housekeeper asks the kernel again, since there may be thousands. Else the kernel can be
 * asked only after the take-over, when the last broker is dead. Until the memory is back
 * the record says who pays: this broker may die, too. Returns: 0; -errno with a sentence.
 */
static int resume_freed_block(struct resume *resume, uint32_t index,
			      const struct block_record *record, struct owner *payer)
{
	struct memory *memory = resume->broker->memory;
	_cleanup_close_ int fd = kept_take(memory, RECORD_BLOCK, index);
	bool was_mapped = record->freed && !record->backing;
	struct block *block;
	int r = fd < 0 ? -EBADF : block_restore(&block, memory, index, record, fd);

	if (r < 0)
		return resume_fail(resume, r, "freed block", index);
	(void)take_fd(&fd);
	block->payer = payer;
	resume->blocks[index] = block;
	if (was_mapped) {
		still_mapped_restore(resume->broker, block);
		return 0;
	}
	block->pays_descriptor = true;
	share_restore(payer, SHARE_DESCRIPTORS, 1);
	block_save(memory, block, 0);
	DL_APPEND(resume->freed, block);
	return 0;
}

/*
 * A block without an allocation was on its way back. Its memory was held until the death,
 * so peaks count the block. keep_drop_rest() follows.
 */
int resume_forget_blocks(struct resume *resume)
{
	const struct block_record *block;
	struct owner *payer;
	int r = 0;

	for (uint32_t i = 1; (block = records_next(resume->records, RECORD_BLOCK, &i));
	     i++) {
		payer = resume->blocks[i] ? NULL : payer_of(resume, i, block);
		if (payer)
			share_restore(payer, place_share(block->place), block->size);
	}
	for (uint32_t i = 1;
	     r == 0 && (block = records_next(resume->records, RECORD_BLOCK, &i)); i++) {
		if (resume->blocks[i])
			continue;
		payer = payer_of(resume, i, block);
		if (payer && block->place == PLACE_HOST && !block->cells) {
			r = resume_freed_block(resume, i, block, payer);
			continue;
		}
		if (payer)
			share_give(payer, place_share(block->place), block->size);
		if (!block->backing)
			records_drop(resume->broker->registry->records, RECORD_BLOCK, i);
	}
	return r;
}

void resume_give_back(struct resume *resume)
{
	struct block *block;

	while ((block = resume->freed)) {
		DL_DELETE(resume->freed, block);
		block_give_back(resume->broker, block->payer, block, GIVE_BACK_UNTOLD);
	}
}

void resume_close_backings(const struct resume *resume)
{
	const struct block_record *block;

	for (uint32_t i = 1; (block = records_next(resume->records, RECORD_BLOCK, &i));
	     i++) {
		if (resume->blocks[i])
			continue;
		memory_close_backing(resume->broker->memory, block->backing);
		records_drop(resume->broker->registry->records, RECORD_BLOCK, i);
	}
}
