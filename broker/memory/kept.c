/* SPDX-License-Identifier: MIT */
#include "memory/kept.h"

#include <errno.h>

#include "base/descriptor.h"
#include "base/refusal.h"
#include "keep/keep.h"
#include "memory/block.h"

static const enum keep_kind kinds[] = {
	[RECORD_BLOCK] = KEEP_BLOCK,	   [RECORD_IMAGE] = KEEP_IMAGE,
	[RECORD_LIFETIME] = KEEP_LIFETIME, [RECORD_TENSORS] = KEEP_TENSORS,
	[RECORD_PROCESS] = KEEP_PROCESS,
};

struct keep_key kept_key(const struct memory *memory, enum record_type type,
			 uint32_t record)
{
	if (!record)
		return (struct keep_key){ 0 };
	return (struct keep_key){
		.kind = kinds[type],
		.number = record,
		.generation = records_generation(memory->records, type, record),
	};
}

void kept_settle(const struct memory *memory)
{
	records_begin(memory->records);
	keep_settle(memory->keep);
	records_end(memory->records);
}

int kept_add(const struct memory *memory, enum record_type type, int fd,
	     uint32_t *ret_record)
{
	int r = records_take(memory->records, type, ret_record);

	if (!*ret_record)
		return r;
	kept_settle(memory);
	r = keep_make_room(memory->keep);
	if (r == 0)
		r = keep_put(memory->keep, kept_key(memory, type, *ret_record), fd);
	if (r < 0) {
		records_drop(memory->records, type, *ret_record);
		*ret_record = 0;
	}
	return r;
}

int kept_refuse(int error, struct refusal *refusal)
{
	return error == -EMFILE ? refuse(refusal, EMFILE, DESCRIPTORS_GONE)
				: refuse(refusal, ENOMEM, "no memory in the broker");
}

void kept_end(const struct memory *memory, struct keep_key key)
{
	struct records *records = memory->records;

	if (!key.kind)
		return;
	/* Waits for the end of the group with the drop: the group has this lock. */
	records_begin(records);
	records_end(records);
	keep_drop(memory->keep, key);
}

struct keep_key kept_unrecord(const struct memory *memory, enum record_type type,
			      uint32_t record)
{
	struct keep_key key;

	records_begin(memory->records);
	key = kept_key(memory, type, record);
	records_drop(memory->records, type, record);
	records_end(memory->records);
	return key;
}

void kept_forget(const struct memory *memory, struct keep_key key)
{
	if (key.kind)
		keep_forget(memory->keep, key);
}

int kept_take(const struct memory *memory, enum record_type type, uint32_t record)
{
	return keep_take(memory->keep, kept_key(memory, type, record));
}
