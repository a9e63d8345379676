/* SPDX-License-Identifier: MIT */
/*
 * Checks records before anything is made of them: each alone, then those that must differ
 * in something (a name, a slot, an address), then references.
 */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "record/layout.h"

#define N_KINDS_MAX	8
#define GUARDS		3
#define CELL_CLASSES	24
#define SLOTS		(1u << 23)

struct check {
	const struct records *records;
	struct text *why;
	const char *what;
	uint32_t index;
};

static int damaged(const struct check *check, const char *sentence)
{
	text_printf(check->why, "%s record %u %s", check->what, check->index, sentence);
	return -EINVAL;
}

static bool is_string(const char *bytes, size_t size)
{
	return memchr(bytes, 0, size) != NULL;
}

/* ---- each record ---- */

static int check_broker(const struct check *check, const void *record)
{
	const struct broker_record *broker = record;

	if (broker->n_devices > RECORD_DEVICES || broker->init_bytes > sizeof(broker->init))
		return damaged(check, "has a count out of range");
	for (int i = 0; i < RECORD_DEVICES; i++) {
		if (!is_string(broker->uuid[i], sizeof(broker->uuid[i])))
			return damaged(check, "has a name without an end");
	}
	return 0;
}

static int check_owner(const struct check *check, const void *record)
{
	const struct owner_record *owner = record;

	if (owner->slot >= SLOTS || !owner->slot_generation)
		return damaged(check, "has no slot");
	return 0;
}

static int check_block(const struct check *check, const void *record)
{
	const struct block_record *block = record;

	if (!block->size || block->address + block->size < block->address)
		return damaged(check, "has no range of addresses");
	if (block->place > RECORD_DEVICES || block->guard >= GUARDS ||
	    block->cells > CELL_CLASSES)
		return damaged(check, "has a value out of range");
	return 0;
}

static int check_allocation(const struct check *check, const void *record)
{
	const struct allocation_record *allocation = record;
	const struct block_record *block;

	if (!is_string(allocation->name, sizeof(allocation->name)) ||
	    !allocation->name[0] || !is_string(allocation->tag, sizeof(allocation->tag)))
		return damaged(check, "has no name, or one without an end");
	if (allocation->slot >= SLOTS || !allocation->slot_generation ||
	    !allocation->id || allocation->kind >= N_KINDS_MAX ||
	    allocation->device >= RECORD_DEVICES || allocation->mode & ~0777 ||
	    allocation->guard >= GUARDS || !allocation->size)
		return damaged(check, "has a value out of range");
	if (allocation->folder && !(allocation->flags & RECORD_FREED) &&
	    !records_get(check->records, RECORD_FOLDER, allocation->folder))
		return damaged(check, "is in a folder that is not there");
	if (!allocation->block)
		return 0;
	block = records_get(check->records, RECORD_BLOCK, allocation->block);
	if (block && block->record.generation != allocation->block_generation)
		block = NULL;
	/* The block of a freed allocation goes first. */
	if (!block && allocation->flags & RECORD_FREED)
		return 0;
	if (!block)
		return damaged(check, "is in a block that is not there");
	if (allocation->address < block->address ||
	    allocation->size > block->size ||
	    allocation->address - block->address > block->size - allocation->size)
		return damaged(check, "is outside of its block");
	return 0;
}

/* Folders above; a chain that is too long is a circle. */
#define DEPTH_MAX 64

static int check_folder(const struct check *check, const void *record)
{
	const struct folder_record *folder = record;
	uint32_t up = folder->folder;

	if (!is_string(folder->name, sizeof(folder->name)) || !folder->name[0])
		return damaged(check, "has no name, or one without an end");
	if (folder->slot >= SLOTS || !folder->slot_generation || folder->mode & ~0777u)
		return damaged(check, "has a value out of range");
	for (int depth = 0; up; depth++) {
		const struct folder_record *above =
			records_get(check->records, RECORD_FOLDER, up);

		if (!above || depth == DEPTH_MAX)
			return damaged(check, "is in no folder that is there");
		up = above->folder;
	}
	return 0;
}

static int check_lease(const struct check *check, const void *record)
{
	const struct lease_record *lease = record;

	if (!records_get(check->records, RECORD_ALLOCATION, lease->allocation))
		return damaged(check, "is of an allocation that is not there");
	if (!(lease->file >> 32) || (uint32_t)lease->file >= SLOTS)
		return damaged(check, "has no open file");
	return 0;
}

static int check_each(const struct records *records, struct text *why)
{
	static int (*const checks[N_RECORD_TYPES])(const struct check *, const void *) = {
		[RECORD_BROKER] = check_broker,
		[RECORD_OWNER] = check_owner,
		[RECORD_BLOCK] = check_block,
		[RECORD_ALLOCATION] = check_allocation,
		[RECORD_LEASE] = check_lease,
		[RECORD_FOLDER] = check_folder,
	};

	for (int type = 0; type < N_RECORD_TYPES; type++) {
		struct check check = { records, why, record_layouts[type].name, 0 };
		const void *record;
		int r;

		for (check.index = 1; (record = records_next(records,
							     (enum record_type)type,
							     &check.index));
		     check.index++) {
			r = checks[type](&check, record);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* ---- what must differ ---- */

struct list {
	const void **records;
	size_t n;
};

static int list_fill(struct list *list, const struct records *records,
		     enum record_type type)
{
	const void *record;

	list->records =
		calloc(records->header->tables[type].n + 1, sizeof(*list->records));
	if (!list->records)
		return -ENOMEM;
	list->n = 0;
	for (uint32_t i = 1; (record = records_next(records, type, &i)); i++) {
		const struct allocation_record *allocation = record;

		/* A freed allocation has neither its name nor its slot. */
		if (type != RECORD_ALLOCATION || !(allocation->flags & RECORD_FREED))
			list->records[list->n++] = record;
	}
	return 0;
}

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int by_name(const void *a, const void *b)
{
	const struct allocation_record *const *x = a, *const *y = b;

	return COMPARE((*x)->folder, (*y)->folder) ?: strcmp((*x)->name, (*y)->name);
}

static int by_folder_name(const void *a, const void *b)
{
	const struct folder_record *const *x = a, *const *y = b;

	return COMPARE((*x)->folder, (*y)->folder) ?: strcmp((*x)->name, (*y)->name);
}

static int by_folder_slot(const void *a, const void *b)
{
	const struct folder_record *const *x = a, *const *y = b;

	return COMPARE((*x)->slot, (*y)->slot);
}

static int by_slot(const void *a, const void *b)
{
	const struct allocation_record *const *x = a, *const *y = b;

	return COMPARE((*x)->slot, (*y)->slot);
}

static int by_uid(const void *a, const void *b)
{
	const struct owner_record *const *x = a, *const *y = b;

	return COMPARE((*x)->uid, (*y)->uid);
}

static int by_owner_slot(const void *a, const void *b)
{
	const struct owner_record *const *x = a, *const *y = b;

	return COMPARE((*x)->slot, (*y)->slot);
}

static int by_file(const void *a, const void *b)
{
	const struct lease_record *const *x = a, *const *y = b;

	return COMPARE((uint32_t)(*x)->file, (uint32_t)(*y)->file);
}

/* Equal when they overlap; an order, as long as no two do. */
static int by_range(const void *a, const void *b)
{
	const struct block_record *const *x = a, *const *y = b;

	if ((*x)->address + (*x)->size <= (*y)->address)
		return -1;
	return (*y)->address + (*y)->size <= (*x)->address;
}

static const struct {
	enum record_type type;
	int (*compare)(const void *, const void *);
	const char *sentence;
} differences[] = {
	{ RECORD_ALLOCATION, by_name, "two allocations have the same name" },
	{ RECORD_ALLOCATION, by_slot, "two allocations have the same slot" },
	{ RECORD_FOLDER, by_folder_name, "two folders have the same name" },
	{ RECORD_FOLDER, by_folder_slot, "two folders have the same slot" },
	{ RECORD_OWNER, by_uid, "an owner is there twice" },
	{ RECORD_OWNER, by_owner_slot, "two owners have the same slot" },
	{ RECORD_LEASE, by_file, "two leases have the same open file" },
	{ RECORD_BLOCK, by_range, "two blocks overlap" },
};

static int check_differences(const struct records *records, struct text *why)
{
	for (size_t i = 0; i < ARRAY_SIZE(differences); i++) {
		struct list list;
		int r = list_fill(&list, records, differences[i].type);

		if (r < 0)
			return r;
		qsort(list.records, list.n, sizeof(*list.records),
		      differences[i].compare);
		for (size_t j = 1; j < list.n && r == 0; j++) {
			if (differences[i].compare(&list.records[j - 1],
						   &list.records[j]) == 0) {
				text_printf(why, "%s", differences[i].sentence);
				r = -EINVAL;
			}
		}
		free(list.records);
		if (r < 0)
			return r;
	}
	return 0;
}

int records_check(const struct records *records, struct text *why)
{
	int r = check_each(records, why);

	return r < 0 ? r : check_differences(records, why);
}
