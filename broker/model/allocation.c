/* SPDX-License-Identifier: MIT */
#include "model/allocation.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/refusal.h"
#include "model/origin.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "model/shares.h"
#include "model/stream.h"
#include "record/records.h"

/* There may be a million, each 8 bytes more in the heap. What is rare has parts of its
 * own. */
_Static_assert(sizeof(struct allocation) <= 296, "an allocation is small");

static const struct {
	const char *name;
	bool durable;
} kinds[N_KINDS] = {
	[KIND_DEVICE] = { "device", true }, [KIND_DIRECT] = { "direct", false },
	[KIND_ASYNC] = { "async", false },  [KIND_MANAGED] = { "managed", false },
	[KIND_HOST] = { "host", true },
};

const char *kind_name(enum allocation_kind kind)
{
	return kinds[kind].name;
}

int kind_find(const char *name)
{
	for (int i = 0; i < N_KINDS; i++) {
		if (strcmp(kinds[i].name, name) == 0)
			return i;
	}
	return -EINVAL;
}

bool kind_is_durable(enum allocation_kind kind)
{
	return kinds[kind].durable;
}

bool kind_has_device(enum allocation_kind kind)
{
	return kind != KIND_HOST && kind != KIND_MANAGED;
}

/* Of all allocations without one of their own. Constant, so that no store goes unseen. */
static const struct allocation_rare nothing_rare;

int allocation_make_rare(struct allocation *allocation)
{
	struct allocation_rare *rare;

	if (allocation->rare != &nothing_rare)
		return 0;
	rare = calloc(1, sizeof(*rare));
	if (!rare)
		return -ENOMEM;
	allocation->rare = rare;
	return 0;
}

struct allocation *allocation_blank(struct owner *owner)
{
	struct allocation *allocation = calloc(1, sizeof(*allocation));

	if (!allocation)
		return NULL;
	allocation->owner = owner;
	allocation->entry.type = OBJECT_ALLOCATION;
	allocation->rare = (struct allocation_rare *)&nothing_rare;
	return allocation;
}

static int record_take(struct owner *owner)
{
	int r = share_take(owner, SHARE_ALLOCATIONS, 1);

	if (r < 0)
		return r;
	r = share_take(owner, SHARE_RECORDS, 1);
	if (r < 0)
		share_give(owner, SHARE_ALLOCATIONS, 1);
	return r;
}

static void record_give(struct owner *owner)
{
	share_give(owner, SHARE_ALLOCATIONS, 1);
	share_give(owner, SHARE_RECORDS, 1);
}

int allocation_new(struct allocation **ret_allocation, struct registry *registry,
		   struct folder *folder, const char *name, uint64_t size,
		   struct owner *owner)
{
	struct allocation *allocation;
	int r;

	if (folder_find(folder, name))
		return -EEXIST;
	r = record_take(owner);
	if (r < 0)
		return r;
	allocation = allocation_blank(owner);
	r = allocation ? handle_table_add(&registry->allocations, allocation,
					  &allocation->slot, &allocation->slot_generation)
		       : -ENOMEM;
	if (r < 0) {
		record_give(owner);
		free(allocation);
		return r;
	}
	r = entry_add(&allocation->entry, folder, name);
	if (r < 0) {
		record_give(owner);
		handle_table_remove(&registry->allocations, allocation->slot);
		free(allocation);
		return r;
	}
	allocation->id = registry_new_id(registry, ID_ALLOCATION);
	allocation->size = size;
	allocation->state = ALLOCATION_MAKING;
	allocation->pointer_generation = 1;
	if (allocation_record_take(registry, allocation) < 0) {
		entry_remove(&allocation->entry);
		entry_deinit(&allocation->entry);
		handle_table_remove(&registry->allocations, allocation->slot);
		share_give(owner, SHARE_ALLOCATIONS, 1);
		free(allocation);
		return -ENOMEM;
	}
	*ret_allocation = allocation;
	return 0;
}

struct full_name allocation_name(const struct allocation *allocation)
{
	return entry_name(&allocation->entry);
}

int allocation_charge(struct allocation *allocation)
{
	int r;

	if (allocation->charged)
		return 0;
	r = share_take_pieces(allocation->owner, allocation->device,
			      allocation->kind == KIND_ASYNC, allocation->size);
	allocation->charged = r == 0;
	return r;
}

static void allocation_uncharge(struct allocation *allocation)
{
	if (allocation->charged)
		share_give_pieces(allocation->owner, allocation->device,
				  allocation->kind == KIND_ASYNC, allocation->size,
				  allocation->state == ALLOCATION_MAKING);
	allocation->charged = false;
}

void allocation_join_worker(struct allocation *allocation)
{
	if (kind_is_durable((enum allocation_kind)allocation->kind))
		return;
	assert(allocation->rare != &nothing_rare);
	DL_APPEND2(allocation->owner->in_worker, allocation, rare->worker_prev,
		   rare->worker_next);
}

void allocation_leave_worker(struct allocation *allocation)
{
	struct worker_walk *walk;

	if (!allocation->rare->worker_prev)
		return;
	LL_FOREACH2(allocation->owner->worker_walks, walk, next_walk)
	{
		if (walk->next == allocation)
			walk->next = allocation->rare->worker_next;
	}
	DL_DELETE2(allocation->owner->in_worker, allocation, rare->worker_prev,
		   rare->worker_next);
	allocation->rare->worker_prev = NULL;
}

void worker_walk_begin(struct worker_walk *walk, struct owner *owner)
{
	*walk = (struct worker_walk){ .owner = owner, .next = owner->in_worker };
	LL_PREPEND2(owner->worker_walks, walk, next_walk);
}

struct allocation *worker_walk_next(struct worker_walk *walk)
{
	struct allocation *allocation = walk->next;

	if (allocation)
		walk->next = allocation->rare->worker_next;
	return allocation;
}

void worker_walk_end(struct worker_walk *walk)
{
	LL_DELETE2(walk->owner->worker_walks, walk, next_walk);
}

/* Adds what the allocation is to the owner's totals; sign -1: subtracts. */
static void owner_count(struct owner *owner, const struct allocation *allocation,
			int64_t sign)
{
	struct device_meter *meter = meter_of(owner->meter, allocation);
	uint64_t bytes = (uint64_t)(sign * (int64_t)allocation->size);

	owner->n_allocations += (uint64_t)sign;
	meter->allocations[allocation->kind] += (uint64_t)sign;
	meter->bytes[allocation->kind] += bytes;
	owner->bytes += bytes;
	owner->peak_bytes = MAX(owner->peak_bytes, owner->bytes);
	if (allocation->rare->leases)
		owner->leased.bytes += bytes;
}

void allocation_count(struct registry *registry, struct allocation *allocation)
{
	struct owner *owner = allocation->owner;

	allocation->state = ALLOCATION_LIVE;
	registry->n_allocations++;
	registry->bytes += allocation->size;
	registry->bytes_by_kind[allocation->kind] += allocation->size;
	if (allocation->kind == KIND_MANAGED)
		registry->managed_on[allocation->device] += allocation->size;
	registry->peak_bytes = MAX(registry->peak_bytes, registry->bytes);
	if (allocation->kind != KIND_HOST)
		registry->n_allocations_on[allocation->device]++;
	owner_count(owner, allocation, 1);
	allocation_join_worker(allocation);
	if (allocation->managed)
		managed_count(allocation->managed, &registry->managed);
}

void allocation_publish(struct registry *registry, struct allocation *allocation)
{
	uint64_t peak = allocation->owner->peak_bytes, peak_of_all = registry->peak_bytes;

	allocation_count(registry, allocation);
	allocation->created_s = time(NULL);
	allocation_save(allocation);
	if (allocation->owner->peak_bytes != peak)
		owner_save(registry, allocation->owner);
	if (registry->peak_bytes != peak_of_all)
		registry_save_peak(registry);
}

void allocation_lose(struct registry *registry, struct allocation *allocation,
		     const char *why)
{
	assert(allocation->state == ALLOCATION_LIVE);
	allocation->state = ALLOCATION_LOST;
	allocation_leave_worker(allocation);
	if (allocation_make_rare(allocation) == 0)
		allocation->rare->lost_why = strdup(why);
	allocation->pointer_generation++;
	allocation_save(allocation);
	allocation_uncharge(allocation);
	if (allocation->managed)
		managed_uncount(allocation->managed, &registry->managed);
}

void allocation_lend(struct allocation *allocation, uid_t uid)
{
	allocation->lent = true;
	if (uid != 0 && uid != allocation->owner->uid)
		allocation->lent_to_others = true;
	allocation_save(allocation);
}

void allocation_set_owner(struct allocation *allocation, struct owner *to)
{
	if (to != allocation->owner && allocation->owner->uid != 0)
		allocation->lent_to_others |= allocation->lent;
	allocation->owner = to;
}

void allocation_give(struct registry *registry, struct allocation *allocation,
		     struct owner *to)
{
	owner_count(allocation->owner, allocation, -1);
	owner_count(to, allocation, 1);
	allocation_set_owner(allocation, to);
	allocation_save(allocation);
	owner_save(registry, to); /* its peak may be another */
}

void allocation_set_stream(struct allocation *allocation, struct stream *stream)
{
	if (allocation->stream)
		allocation->stream->n_allocations--;
	allocation->stream = stream;
	if (stream)
		stream->n_allocations++;
}

void allocation_withdraw(struct registry *registry, struct allocation *allocation)
{
	assert(allocation->state != ALLOCATION_FREED);
	if (allocation->entry.folder)
		entry_remove(&allocation->entry);
	handle_table_remove(&registry->allocations, allocation->slot);
	allocation_leave_worker(allocation);
	share_give(allocation->owner, SHARE_ALLOCATIONS, 1);
	if (allocation->state != ALLOCATION_MAKING) {
		registry->n_allocations--;
		allocation->owner->n_allocations--;
		meter_of(allocation->owner->meter, allocation)
			->allocations[allocation->kind]--;
		if (allocation->kind != KIND_HOST)
			registry->n_allocations_on[allocation->device]--;
		if (allocation->managed)
			managed_uncount(allocation->managed, &registry->managed);
		allocation->state = ALLOCATION_FREED;
	}
	records_begin(registry->records);
	origin_leave(allocation);
	allocation_save(allocation);
	records_end(registry->records);
}

struct allocation *allocation_free(struct registry *registry,
				   struct allocation *allocation)
{
	if (!allocation)
		return NULL;
	assert(!allocation->uses && allocation->n_works == 0);
	if (allocation->state == ALLOCATION_FREED) {
		registry->bytes -= allocation->size;
		registry->bytes_by_kind[allocation->kind] -= allocation->size;
		if (allocation->kind == KIND_MANAGED)
			registry->managed_on[allocation->device] -= allocation->size;
		allocation->owner->bytes -= allocation->size;
		meter_of(allocation->owner->meter, allocation)->bytes[allocation->kind] -=
			allocation->size;
	}
	allocation_uncharge(allocation);
	share_give(allocation->owner, SHARE_RECORDS, 1);
	share_give(allocation->owner, SHARE_DESCRIPTORS, allocation->has_descriptor);
	allocation_set_stream(allocation, NULL);
	managed_free(allocation->managed, &registry->managed);
	allocation_record_drop(allocation);
	entry_deinit(&allocation->entry);
	free(allocation->tag);
	free(allocation->rare->zeroing_failure);
	free(allocation->rare->lost_why);
	if (allocation->rare != &nothing_rare)
		free(allocation->rare);
	free(allocation);
	return NULL;
}

struct allocation *allocation_of(struct entry *entry)
{
	if (!entry || entry->type != OBJECT_ALLOCATION)
		return NULL;
	return container_of(entry, struct allocation, entry);
}

struct allocation *allocation_find(struct registry *registry, const char *name,
				   const struct caller *caller, struct refusal *refusal)
{
	return allocation_of(
		path_find(registry, OBJECT_ALLOCATION, name, caller, refusal));
}

struct allocation *allocation_find_made(struct registry *registry, const char *name,
					const struct caller *caller,
					struct refusal *refusal)
{
	struct allocation *allocation = allocation_find(registry, name, caller, refusal);

	if (!allocation || allocation->state != ALLOCATION_MAKING)
		return allocation;
	(void)refuse_absent(refusal, OBJECT_ALLOCATION, NULL, name);
	return NULL;
}

int allocation_check_id(const struct allocation *allocation, uint64_t id,
			struct refusal *refusal)
{
	if (!id || id == allocation->id)
		return 0;
	return refuse(refusal, ESTALE,
		      "%s is another allocation now: its id is %llu, not %llu",
		      allocation_name(allocation).text,
		      (unsigned long long)allocation->id, (unsigned long long)id);
}

struct allocation *allocation_get(const struct registry *registry, uint32_t slot,
				  uint32_t generation)
{
	struct allocation *allocation =
		handle_table_get(&registry->allocations, slot, generation);

	return allocation && allocation->state != ALLOCATION_MAKING ? allocation : NULL;
}

static int64_t time_now_ns(void)
{
	return (int64_t)clock_ns(CLOCK_REALTIME_COARSE);
}

void allocation_written(struct allocation *allocation)
{
	allocation->written_ns = time_now_ns();
	allocation_save(allocation);
}

void allocation_used(struct allocation *allocation)
{
	allocation->used_ns = time_now_ns();
	allocation_save_used(allocation);
}

int64_t allocation_last_used(const struct allocation *allocation)
{
	return allocation->rare->n_leases ? time_now_ns() : allocation->used_ns;
}

int refuse_lost(struct refusal *refusal, const struct allocation *allocation)
{
	return refuse(refusal, ESTALE,
		      "allocation %s is lost: the worker that held it %s; free it",
		      allocation_name(allocation).text,
		      allocation->rare->lost_why ? allocation->rare->lost_why : "ended");
}

int refuse_sealed(struct refusal *refusal, const struct allocation *allocation)
{
	return refuse(refusal, EPERM,
		      "allocation %s is sealed: nobody can write it any more",
		      allocation_name(allocation).text);
}
