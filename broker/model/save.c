/* SPDX-License-Identifier: MIT */
#include "model/save.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/def.h"
#include "base/text.h"
#include "model/allocation.h"
#include "model/folder.h"
#include "model/meter.h"
#include "model/module.h"
#include "model/origin.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save_module.h"
#include "model/shares.h"
#include "model/tensors.h"
#include "record/records.h"
#include "record/texts.h"

/* Ids are saved this far ahead, so that few new objects have to save ids. */
#define IDS_AHEAD 1024

/* A word is shorter than its place in the record. Zeros fill the place. */
static void copy_word(char *to, const char *word, size_t size)
{
	size_t length = strlen(word);

	assert(length < size);
	memcpy(to, word, length);
	memset(to + length, 0, size - length);
}

/* ---- limits ---- */

_Static_assert(N_LIMITS <= RECORD_LIMITS, "limits fit their record");

struct limits_record limits_to_record(const struct limits *limits)
{
	struct limits_record record = { .given = limits->given };

	for (int i = 0; i < N_LIMITS; i++)
		record.max[i] = limits->given >> i & 1 ? limits->max[i] : 0;
	return record;
}

static void limits_restore(struct limits *limits, const struct limits_record *record)
{
	limits->given = record->given & (((uint64_t)1 << N_LIMITS) - 1);
	memcpy(limits->max, record->max, sizeof(limits->max));
}

/* ---- the registry ---- */

uint64_t broker_record_id(const struct broker_record *record, int type)
{
	return type == ID_FUNCTION ? record->next_function_id : record->next_id[type];
}

int registry_keep_records(struct registry *registry, struct records *records)
{
	const struct broker_record *old;
	uint32_t *generations = &records_token_ends(records)->generations;
	int r;

	registry->records = records;
	old = records_get(records, RECORD_BROKER, 1);
	if (!old && records_add(records, RECORD_BROKER) != 1)
		return -ENOMEM;
	if (old) {
		for (int i = 0; i < N_ID_TYPES; i++)
			registry->next_id[i] = broker_record_id(old, (enum id_type)i);
		registry->peak_bytes = old->peak_bytes;
		limits_restore(&registry->limits, &old->limits);
	}
	r = meters_keep_records(registry);
	if (r < 0)
		return r;
	/* Tokens of objects that died with the last broker stay unknown. */
	handle_table_begin(&registry->allocations, generations);
	handle_table_begin(&registry->streams, generations);
	handle_table_begin(&registry->owners, generations);
	handle_table_begin(&registry->modules, generations);
	handle_table_begin(&registry->functions, generations);
	handle_table_begin(&registry->folders, generations);
	return 0;
}

void registry_save(struct registry *registry)
{
	const struct broker_record *old =
		records_get(registry->records, RECORD_BROKER, 1);
	struct broker_record record = { 0 };

	if (!registry->records)
		return;
	if (old)
		record = *old;
	for (int i = 0; i < ID_FUNCTION; i++)
		record.next_id[i] = registry->next_id[i] + IDS_AHEAD;
	record.next_function_id = registry->next_id[ID_FUNCTION] + IDS_AHEAD;
	record.peak_bytes = registry->peak_bytes;
	record.limits = limits_to_record(&registry->limits);
	record.n_devices = registry->n_devices;
	for (uint32_t i = 0; i < registry->n_devices; i++)
		strcpy(record.uuid[i], registry->device_at[i]->uuid);
	records_save(registry->records, RECORD_BROKER, 1, &record);
}

void registry_save_peak(struct registry *registry)
{
	if (!records_write(registry->records, RECORD_BROKER, 1,
			   offsetof(struct broker_record, peak_bytes),
			   &registry->peak_bytes, 1))
		registry_save(registry);
}

void registry_save_backing(struct registry *registry, uint32_t backing)
{
	const struct broker_record *old =
		records_get(registry->records, RECORD_BROKER, 1);
	struct broker_record record;

	if (!old)
		return;
	record = *old;
	record.last_backing = backing;
	records_save(registry->records, RECORD_BROKER, 1, &record);
}

void registry_save_restarts(struct registry *registry, uint64_t workers, uint64_t movers)
{
	const uint64_t words[2] = { workers, movers };
	bool done = records_write(registry->records, RECORD_BROKER, 1,
				  offsetof(struct broker_record, restarts), words, 2);

	assert(done);
}

/* ---- owners ---- */

int owner_record_take(struct registry *registry, struct owner *owner)
{
	owner->records = registry->records;
	return records_take(registry->records, RECORD_OWNER, &owner->record);
}

void owner_to_record(const struct owner *owner, struct owner_record *ret_record)
{
	*ret_record = (struct owner_record){
		.uid = owner->uid,
		.gid = owner->gid,
		.slot = owner->slot,
		.slot_generation = owner->slot_generation,
		.peak_bytes = owner->peak_bytes,
		.restarts = owner->restarts,
		.limits = limits_to_record(&owner->shares.limits),
		.meter = owner->meter_record,
		.own_limits = owner->shares.limits.own,
		.n_barren = owner->n_barren,
	};
	copy_word(ret_record->end_reason, owner->end_reason,
		  sizeof(ret_record->end_reason));
	memcpy(ret_record->n_refused, owner->shares.n_refused,
	       sizeof(owner->shares.n_refused));
	memcpy(ret_record->peak, owner->shares.peak, sizeof(owner->shares.peak));
}

void owner_save_counts(const struct owner *owner, enum share share)
{
	const struct shares *shares = &owner->shares;
	struct owner_record record;

	if (records_write(owner->records, RECORD_OWNER, owner->record,
			  offsetof(struct owner_record, n_refused[share]),
			  &shares->n_refused[share], 1) &&
	    records_write(owner->records, RECORD_OWNER, owner->record,
			  offsetof(struct owner_record, peak[share]),
			  &shares->peak[share], 1))
		return;
	owner_to_record(owner, &record);
	records_save(owner->records, RECORD_OWNER, owner->record, &record);
}

void owner_save(struct registry *registry, const struct owner *owner)
{
	struct owner_record record;

	owner_to_record(owner, &record);
	records_save(registry->records, RECORD_OWNER, owner->record, &record);
}

void owner_record_drop(struct registry *registry, const struct owner *owner)
{
	records_drop(registry->records, RECORD_OWNER, owner->record);
}

int owner_restore(struct registry *registry, uint32_t index,
		  const struct owner_record *record)
{
	struct owner *owner =
		owner_new(registry, record->uid, record->gid, record->meter);
	int r;

	if (!owner)
		return -ENOMEM;
	owner->records = registry->records;
	owner->record = index;
	memcpy(owner->shares.n_refused, record->n_refused,
	       sizeof(owner->shares.n_refused));
	memcpy(owner->shares.peak, record->peak, sizeof(owner->shares.peak));
	owner->slot = record->slot;
	owner->slot_generation = record->slot_generation;
	owner->peak_bytes = record->peak_bytes;
	owner->restarts = record->restarts;
	owner->n_barren = record->n_barren;
	strcpy(owner->end_reason, record->end_reason);
	limits_restore(&owner->shares.limits, &record->limits);
	owner->shares.limits.own = record->own_limits & owner->shares.limits.given;
	r = handle_table_put(&registry->owners, owner, owner->slot,
			     owner->slot_generation);
	if (r < 0) {
		owner_discard(registry, owner);
		return r;
	}
	owner_list(registry, owner);
	return 0;
}

/* ---- folders ---- */

int folder_record_take(struct registry *registry, struct folder *folder)
{
	folder->records = registry->records;
	return records_take(registry->records, RECORD_FOLDER, &folder->record);
}

void folder_to_record(const struct folder *folder, struct folder_record *ret_record)
{
	*ret_record = (struct folder_record){
		.id = folder->id,
		.changed_s = folder->changed_s,
		.changed_ns = folder->changed_ns,
		.slot = folder->slot,
		.slot_generation = folder->slot_generation,
		.folder = folder->entry.folder->record,
		.owner = folder->owner->uid,
		.gid = folder->gid,
		.mode = folder->mode,
		.of_modules = folder->holds == OBJECT_MODULE,
		.module = folder->module ? folder->module->record : 0,
		.place = entry_place(&folder->entry),
	};
	copy_word(ret_record->name, folder->entry.name, sizeof(ret_record->name));
}

void folder_save(const struct folder *folder)
{
	struct folder_record record;

	if (!folder->record || !folder->entry.folder)
		return;
	folder_to_record(folder, &record);
	records_save(folder->records, RECORD_FOLDER, folder->record, &record);
}

void folder_record_drop(const struct folder *folder)
{
	records_drop(folder->records, RECORD_FOLDER, folder->record);
}

int folder_restore(struct folder **ret_folder, struct registry *registry,
		   struct owner *owner, uint32_t index,
		   const struct folder_record *record)
{
	struct folder *folder;
	int r = folder_remake(&folder, registry, owner, record->slot,
			      record->slot_generation);

	if (r < 0)
		return r;
	folder->records = registry->records;
	folder->record = index;
	folder->holds = record->of_modules ? OBJECT_MODULE : OBJECT_ALLOCATION;
	folder->id = record->id;
	folder->gid = record->gid;
	folder->mode = (uint16_t)record->mode;
	folder->changed_s = record->changed_s;
	folder->changed_ns = record->changed_ns;
	*ret_folder = folder;
	return 0;
}

void entry_save(const struct entry *entry)
{
	if (entry->type == OBJECT_ALLOCATION)
		allocation_save(container_of(entry, struct allocation, entry));
	else if (entry->type == OBJECT_FOLDER)
		folder_save(container_of(entry, struct folder, entry));
	else if (entry->type == OBJECT_MODULE)
		module_save(container_of(entry, struct module, entry));
}

struct records *entry_records(const struct entry *entry)
{
	if (entry->type == OBJECT_ALLOCATION)
		return container_of(entry, struct allocation, entry)->owner->records;
	if (entry->type == OBJECT_FOLDER)
		return container_of(entry, struct folder, entry)->records;
	if (entry->type == OBJECT_MODULE)
		return container_of(entry, struct module, entry)->records;
	return NULL;
}

/* ---- allocations ---- */

int allocation_record_take(struct registry *registry, struct allocation *allocation)
{
	return records_take(registry->records, RECORD_ALLOCATION, &allocation->record);
}

static uint64_t zeros_owed_from(const struct allocation *allocation)
{
	return allocation->n_zeroing
		       ? MIN(allocation->zeros_from, allocation->zeroing_from)
		       : allocation->zeros_from;
}

static uint32_t flags_of(const struct allocation *allocation)
{
	return (zeros_owed_from(allocation) < allocation->size ? RECORD_UNZEROED : 0) |
	       (allocation->map_readers ? RECORD_MAP_READERS : 0) |
	       (allocation->sealed ? RECORD_SEALED : 0) |
	       (allocation->state == ALLOCATION_FREED ? RECORD_FREED : 0) |
	       (allocation->lent ? 0 : RECORD_NEVER_LENT) |
	       (allocation->lent_to_others ? RECORD_LENT_TO_OTHERS : 0) |
	       (allocation->replaced ? RECORD_REPLACED : 0) |
	       (allocation->rare->withdrawals || allocation->orphans_write ||
				allocation->handed_on
			? RECORD_WITHDRAWING
			: 0) |
	       (allocation->has_descriptor ? RECORD_DESCRIPTOR : 0) |
	       (allocation->rare->lifetime ? RECORD_UNTIL : 0);
}

_Static_assert(OBJECT_NAME_MAX < RECORD_NAME_BYTES &&
		       OBJECT_NAME_MAX < RECORD_ALLOCATION_NAME_BYTES,
	       "a name fits its record");

void allocation_to_record(const struct allocation *allocation,
			  struct allocation_record *ret_record)
{
	const struct folder *folder = allocation->entry.folder;
	const struct allocation_rare *rare = allocation->rare;

	*ret_record = (struct allocation_record){
		.id = allocation->id,
		.size = allocation->size,
		.address = allocation->address,
		.created_s = allocation->created_s,
		.written_s = allocation->written_ns / NS_PER_S,
		.zeros_from = zeros_owed_from(allocation),
		.written_ns = (uint32_t)(allocation->written_ns % NS_PER_S),
		.pointer_generation = allocation->pointer_generation,
		.slot = allocation->slot,
		.slot_generation = allocation->slot_generation,
		.owner = allocation->owner->uid,
		.gid = allocation->gid,
		.block = allocation->block_record,
		.cell = allocation->cell,
		.flags = flags_of(allocation),
		.mode = allocation->mode,
		.kind = allocation->kind,
		.device = allocation->device,
		.guard = allocation->guard,
		.block_generation = allocation->block_generation,
		.folder = folder ? folder->record : 0,
		.tag = allocation->tag_record,
		.used_s = allocation->used_ns / NS_PER_S,
		.used_ns = (uint32_t)(allocation->used_ns % NS_PER_S),
		.lifetime = rare->lifetime ? rare->lifetime->record : 0,
		.tensors = rare->tensors ? rare->tensors->record : 0,
		.place = entry_place(&allocation->entry),
		.origin = allocation->origin ? allocation->origin->record : 0,
	};
	copy_word(ret_record->name, allocation->entry.name, sizeof(ret_record->name));
}

int allocation_set_tag(struct allocation *allocation, const char *tag)
{
	char *copy = tag ? strdup(tag) : NULL;
	uint32_t text = 0;

	if (tag && !copy)
		return -ENOMEM;
	if (copy && allocation->record) {
		text = record_text_add(allocation->owner->records, copy, strlen(copy));
		if (!text) {
			free(copy);
			return -ENOMEM;
		}
	}
	/* The old text stays until no record names it. */
	records_begin(allocation->owner->records);
	record_text_drop(allocation->owner->records, allocation->tag_record);
	allocation->tag_record = text;
	allocation_save(allocation);
	records_end(allocation->owner->records);
	free(allocation->tag);
	allocation->tag = copy;
	return 0;
}

void tensors_to_record(const struct tensors *tensors, struct tensors_record *ret_record)
{
	*ret_record = (struct tensors_record){
		.size = tensors->size,
		.payer = tensors->payer->uid,
	};
}

void allocation_save(const struct allocation *allocation)
{
	struct allocation_record record;

	if (!allocation->record || allocation->state == ALLOCATION_MAKING ||
	    allocation->ending)
		return;
	allocation_to_record(allocation, &record);
	records_save(allocation->owner->records, RECORD_ALLOCATION, allocation->record,
		     &record);
}

void allocation_save_used(const struct allocation *allocation)
{
	const uint64_t words[2] = { (uint64_t)(allocation->used_ns / NS_PER_S),
				    (uint64_t)(allocation->used_ns % NS_PER_S) };

	_Static_assert(offsetof(struct allocation_record, lifetime) ==
			       offsetof(struct allocation_record, used_s) + sizeof(words),
		       "the words are two of the record");
	if (allocation->record && allocation->state != ALLOCATION_MAKING &&
	    !records_write(allocation->owner->records, RECORD_ALLOCATION,
			   allocation->record, offsetof(struct allocation_record, used_s),
			   words, 2))
		allocation_save(allocation);
}

void allocation_record_drop(struct allocation *allocation)
{
	if (!allocation->record)
		return;
	records_begin(allocation->owner->records);
	record_text_drop(allocation->owner->records, allocation->tag_record);
	records_drop(allocation->owner->records, RECORD_ALLOCATION, allocation->record);
	records_end(allocation->owner->records);
	allocation->record = 0;
}

/* A record may say anything: sums may wrap. */
static int64_t time_ns(int64_t s, uint32_t ns)
{
	return (int64_t)((uint64_t)s * (uint64_t)NS_PER_S + ns);
}

static void allocation_take_values(struct allocation *allocation,
				   const struct allocation_record *record)
{
	allocation->id = record->id;
	allocation->size = record->size;
	allocation->address = record->address;
	allocation->created_s = record->created_s;
	allocation->written_ns = time_ns(record->written_s, record->written_ns);
	allocation->used_ns = time_ns(record->used_s, record->used_ns);
	allocation->zeros_from =
		record->flags & RECORD_UNZEROED ? record->zeros_from : record->size;
	allocation->pointer_generation = record->pointer_generation;
	allocation->gid = record->gid;
	allocation->block_record = record->block;
	allocation->block_generation = record->block_generation;
	allocation->cell = record->cell;
	allocation->map_readers = record->flags & RECORD_MAP_READERS;
	allocation->sealed = record->flags & RECORD_SEALED;
	allocation->lent = !(record->flags & RECORD_NEVER_LENT);
	allocation->lent_to_others = record->flags & RECORD_LENT_TO_OTHERS;
	allocation->replaced = record->flags & RECORD_REPLACED;
	allocation->orphans_write = record->flags & RECORD_WITHDRAWING;
	allocation->has_descriptor = record->flags & RECORD_DESCRIPTOR;
	allocation->mode = record->mode;
	allocation->kind = record->kind;
	allocation->device = record->device;
	allocation->guard = record->guard;
}

static void tag_restore(struct allocation *allocation, uint32_t index)
{
	_cleanup_text_ struct text tag = TEXT_INIT;

	if (!index)
		return;
	record_text_show(allocation->owner->records, index, &tag);
	allocation->tag_record = index;
	if (!text_failed(&tag))
		allocation->tag = take_ptr(tag.data);
}

struct allocation *allocation_remake(struct owner *owner, uint32_t index,
				     const struct allocation_record *record)
{
	struct allocation *allocation = allocation_blank(owner);

	if (!allocation)
		return NULL;
	allocation->record = index;
	allocation_take_values(allocation, record);
	tag_restore(allocation, record->tag);
	if (allocation->kind == KIND_MANAGED)
		allocation->managed = managed_new(allocation->size);
	allocation->entry.name = strdup(record->name);
	if ((record->tag && !allocation->tag) ||
	    (allocation->kind == KIND_MANAGED && !allocation->managed) ||
	    !allocation->entry.name)
		return allocation_unmake(allocation);
	return allocation;
}

struct allocation *allocation_unmake(struct allocation *allocation)
{
	if (!allocation)
		return NULL;
	managed_free(allocation->managed, NULL); /* not counted */
	free(allocation->tag);
	entry_deinit(&allocation->entry);
	free(allocation);
	return NULL;
}

int allocation_restore(struct allocation *allocation, struct registry *registry,
		       struct folder *folder, const struct allocation_record *record)
{
	struct owner *owner = allocation->owner;
	struct entry *entry = &allocation->entry;
	bool freed = record->flags & RECORD_FREED;
	int r;

	if (strlen(entry->name) > OBJECT_NAME_MAX)
		return -ENAMETOOLONG;
	allocation->slot = record->slot;
	allocation->slot_generation = record->slot_generation;
	if (freed)
		r = handle_table_add(&registry->allocations, allocation,
				     &allocation->slot, &allocation->slot_generation);
	else
		r = handle_table_put(&registry->allocations, allocation, record->slot,
				     record->slot_generation);
	if (r < 0)
		return r;
	/* The name of a freed allocation may be another's by now. */
	if (!freed)
		r = entry_restore_at(entry, folder, take_ptr(entry->name), record->place);
	if (r < 0) {
		handle_table_remove(&registry->allocations, allocation->slot);
		return r;
	}
	share_restore(owner, SHARE_ALLOCATIONS, 1);
	share_take_beyond(owner, SHARE_RECORDS, 1);
	share_take_beyond(owner, SHARE_DESCRIPTORS, allocation->has_descriptor);
	return 0;
}
