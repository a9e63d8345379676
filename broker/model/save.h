/* SPDX-License-Identifier: MIT */
/*
 * Objects and their records (record/records.h). A changed object is saved before the
 * registry's lock is let go of, so before anybody is answered: the next broker keeps the
 * promise. Without records these functions do nothing.
 *
 * All under the registry's lock.
 */
#pragma once

#include <stdbool.h>

#include "model/shares.h"
#include "record/types.h"

struct allocation;
struct entry;
struct folder;
struct limits;
struct owner;
struct records;
struct registry;
struct tensors;
struct text;

/* From now on objects are saved. None is there yet. Returns: 0; -ENOMEM. */
int registry_keep_records(struct registry *registry, struct records *records);

/* No higher id of the type (enum id_type) was given. */
uint64_t broker_record_id(const struct broker_record *record, int type);

/* Saves devices, ids, the peak and the limits of all owners. */
void registry_save(struct registry *registry);
void registry_save_peak(struct registry *registry);
/* The last of the kernel's numbers that was noted (memops/backing.c). */
void registry_save_backing(struct registry *registry, uint32_t backing);
/* How often workers died or were ended, and movers among them. */
void registry_save_restarts(struct registry *registry, uint64_t workers, uint64_t movers);

/* Returns: 0; -ENOMEM, before the first save of an object. */
int owner_record_take(struct registry *registry, struct owner *owner);
void owner_save(struct registry *registry, const struct owner *owner);
/* Saves the peak of a share with a limit, and how often it was refused. */
void owner_save_counts(const struct owner *owner, enum share share);
void owner_record_drop(struct registry *registry, const struct owner *owner);

/*
 * An allocation is saved from its publication on. Zeroing under way is saved as owed,
 * since the broker may die before its end.
 */
int allocation_record_take(struct registry *registry, struct allocation *allocation);
void allocation_save(const struct allocation *allocation);
void allocation_record_drop(struct allocation *allocation);

/* Sets and saves the tag. NULL: none. Returns: 0; -ENOMEM. */
int allocation_set_tag(struct allocation *allocation, const char *tag);

/* Saves the time of the last use alone: at each launch and read. */
void allocation_save_used(const struct allocation *allocation);

int folder_record_take(struct registry *registry, struct folder *folder);
void folder_save(const struct folder *folder);
void folder_record_drop(const struct folder *folder);

/* Saves the object of an entry whose name has changed. */
void entry_save(const struct entry *entry);
struct records *entry_records(const struct entry *entry);

/*
 * Make an owner or a folder of its record, in its old slot. To be called in the order of
 * slots. A folder comes back out of the tree: entry_restore_at() follows. Return: 0;
 * -EEXIST, -ENOMEM.
 */
int owner_restore(struct registry *registry, uint32_t index,
		  const struct owner_record *record);
int folder_restore(struct folder **ret_folder, struct registry *registry,
		   struct owner *owner, uint32_t index,
		   const struct folder_record *record);

/*
 * Makes an allocation of its record, out of the tree and of all counts. Changes nothing
 * else: several threads may do so at the same time. Returns: for allocation_restore() or
 * allocation_unmake(); NULL: no memory.
 */
struct allocation *allocation_remake(struct owner *owner, uint32_t index,
				     const struct allocation_record *record);
struct allocation *allocation_unmake(struct allocation *allocation);

/*
 * Puts an allocation from allocation_remake() into its old slot and folder. Freed
 * allocations come last and get another slot: allocation_withdraw() follows. Returns: 0;
 * -EEXIST, -ENAMETOOLONG, -ENOMEM: allocation_unmake() follows.
 */
int allocation_restore(struct allocation *allocation, struct registry *registry,
		       struct folder *folder, const struct allocation_record *record);

/* Fill in the record of an object as its save does, but for the head. */
struct limits_record limits_to_record(const struct limits *limits);
void owner_to_record(const struct owner *owner, struct owner_record *ret_record);
void folder_to_record(const struct folder *folder, struct folder_record *ret_record);
void allocation_to_record(const struct allocation *allocation,
			  struct allocation_record *ret_record);
void tensors_to_record(const struct tensors *tensors, struct tensors_record *ret_record);

/*
 * Compares objects with their records, for tests: a few of each type at a call, others
 * at the next. Returns: 0; -EBADMSG with a sentence.
 */
int registry_compare(const struct registry *registry, struct text *why);
