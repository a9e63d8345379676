/* SPDX-License-Identifier: MIT */
/*
 * Checks records before objects are made of them: each record with the records named in
 * it, and values that must differ between records (names and slots, twins.c; addresses).
 * The work is in pieces, because it takes long for many records.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "record/layout.h"
#include "record/texts.h"
#include "record/twins.h"

#define N_KINDS_MAX  8
#define GUARDS	     3
#define CELL_CLASSES 24

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

	if (broker->n_devices > RECORD_DEVICES ||
	    broker->init_bytes > sizeof(broker->init))
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
	const struct meter_record *meter;

	if (owner->slot >= RECORD_SLOTS || !owner->slot_generation)
		return damaged(check, "has no slot");
	meter = records_get(check->records, RECORD_METER, owner->meter);
	if (owner->meter && (!meter || meter->uid != owner->uid))
		return damaged(check, "has no meter of its own");
	if (!is_string(owner->end_reason, sizeof(owner->end_reason)))
		return damaged(check, "has a reason without an end");
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

/* Whether there is a folder of that kind; 0 is the root and always there. */
static bool is_folder(const struct check *check, uint32_t index, uint32_t of_modules)
{
	const struct folder_record *folder =
		records_get(check->records, RECORD_FOLDER, index);

	return !index || (folder && folder->of_modules == of_modules);
}

/* Of an allocation. Its owner is charged for the cgroup. */
static bool is_origin(const struct check *check, uint32_t index, uint32_t owner)
{
	const struct origin_record *origin =
		records_get(check->records, RECORD_ORIGIN, index);

	return !index || (origin && origin->owner == owner);
}

static int check_allocation(const struct check *check, const void *record)
{
	const struct allocation_record *allocation = record;
	const struct block_record *block;

	if (!is_string(allocation->name, sizeof(allocation->name)) ||
	    !allocation->name[0])
		return damaged(check, "has no name, or one without an end");
	if (allocation->slot >= RECORD_SLOTS || !allocation->slot_generation ||
	    !allocation->id || allocation->kind >= N_KINDS_MAX ||
	    allocation->device >= RECORD_DEVICES || allocation->mode & ~0777 ||
	    allocation->guard >= GUARDS || !allocation->size ||
	    allocation->place > RECORD_SLOTS)
		return damaged(check, "has a value out of range");
	if (allocation->lifetime &&
	    !records_get(check->records, RECORD_LIFETIME, allocation->lifetime))
		return damaged(check, "has a lifetime that is not there");
	if (allocation->tensors &&
	    !records_get(check->records, RECORD_TENSORS, allocation->tensors))
		return damaged(check, "has tensors that are not there");
	if (!is_origin(check, allocation->origin, allocation->owner))
		return damaged(check, "has a cgroup that is not its owner's");
	if (!(allocation->flags & RECORD_FREED) &&
	    !is_folder(check, allocation->folder, 0))
		return damaged(check, "is in a folder that is not there");
	if (!allocation->block)
		return 0;
	block = records_get(check->records, RECORD_BLOCK, allocation->block);
	if (block && block->head.generation != allocation->block_generation)
		block = NULL;
	/* The block of a freed allocation goes first. */
	if (!block && allocation->flags & RECORD_FREED)
		return 0;
	if (!block)
		return damaged(check, "is in a block that is not there");
	if (allocation->address < block->address || allocation->size > block->size ||
	    allocation->address - block->address > block->size - allocation->size)
		return damaged(check, "is outside of its block");
	return 0;
}

/* Follows the folders above: too long a chain is a circle. */
#define DEPTH_MAX 64

static int check_folder(const struct check *check, const void *record)
{
	const struct folder_record *folder = record;
	const struct module_record *module =
		records_get(check->records, RECORD_MODULE, folder->module);
	uint32_t up = folder->folder;

	if (!is_string(folder->name, sizeof(folder->name)) || !folder->name[0])
		return damaged(check, "has no name, or one without an end");
	if (folder->slot >= RECORD_SLOTS || !folder->slot_generation ||
	    folder->mode & ~0777u || folder->of_modules > 1 ||
	    folder->place > RECORD_SLOTS)
		return damaged(check, "has a value out of range");
	if (!folder->module != !folder->of_modules ||
	    (folder->module &&
	     (!module || module->name[0] || module->folder != check->index)))
		return damaged(check, "has not the module that it was");
	for (int depth = 0; up; depth++) {
		const struct folder_record *above =
			records_get(check->records, RECORD_FOLDER, up);

		if (!above || depth == DEPTH_MAX ||
		    above->of_modules != folder->of_modules)
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
	if (!(lease->file >> 32) || (uint32_t)lease->file >= RECORD_SLOTS)
		return damaged(check, "has no open file");
	return 0;
}

static int check_event(const struct check *check, const void *record)
{
	const struct event_record *event = record;

	if (!event->number)
		return 0;
	if ((event->number - 1) % RECORD_EVENTS + 1 != check->index ||
	    event->number >> 48)
		return damaged(check, "is not in its place");
	if (!event->length || event->length > sizeof(event->line) ||
	    event->line[event->length - 1] != '\n')
		return damaged(check, "has no line");
	return 0;
}

static int check_failure(const struct check *check, const void *record)
{
	const struct failure_record *failure = record;

	if (!failure->number || failure->number >> 48)
		return damaged(check, "has no number");
	return failure->text ? 0 : damaged(check, "has no text");
}

/* Any text, which record_texts_mark() checks, and any figures. */
static int check_nothing(const struct check *check, const void *record)
{
	(void)check;
	(void)record;
	return 0;
}

static int check_module(const struct check *check, const void *record)
{
	const struct module_record *module = record;
	const struct folder_record *folder =
		records_get(check->records, RECORD_FOLDER, module->folder);
	const struct image_record *image =
		records_get(check->records, RECORD_IMAGE, module->image);

	if (!is_string(module->name, sizeof(module->name)))
		return damaged(check, "has a name without an end");
	if (module->slot >= RECORD_SLOTS || !module->slot_generation ||
	    module->mode & ~0777u || module->folder_mode & ~0777u ||
	    module->device >= RECORD_DEVICES || module->place > RECORD_SLOTS)
		return damaged(check, "has a value out of range");
	if (!is_folder(check, module->folder, 1) ||
	    (!module->name[0] && (!folder || folder->module != check->index)))
		return damaged(check, "is in a folder that is not there");
	if (module->image && (!image || image->module != check->index))
		return damaged(check, "has an image that is not there");
	return 0;
}

static int check_image(const struct check *check, const void *record)
{
	const struct image_record *image = record;

	return image->device < RECORD_DEVICES
		       ? 0
		       : damaged(check, "has a value out of range");
}

static int check_function(const struct check *check, const void *record)
{
	const struct function_record *function = record;

	if (function->slot >= RECORD_SLOTS || !function->slot_generation)
		return damaged(check, "has a value out of range");
	if (!records_get(check->records, RECORD_IMAGE, function->image))
		return damaged(check, "is of an image that is not there");
	return function->text ? 0 : damaged(check, "has no name");
}

static int check_lifetime(const struct check *check, const void *record)
{
	const struct lifetime_record *lifetime = record;

	if (lifetime->kind < 1 || lifetime->kind > 2 || !lifetime->key)
		return damaged(check, "has no kind or no key");
	return 0;
}

static int check_stream(const struct check *check, const void *record)
{
	const struct stream_record *stream = record;

	if (!is_string(stream->name, sizeof(stream->name)) || !stream->name[0])
		return damaged(check, "has no name, or one without an end");
	if (stream->slot >= RECORD_SLOTS || !stream->slot_generation ||
	    stream->device >= RECORD_DEVICES || stream->failed < 0 ||
	    stream->flags & ~RECORD_STREAM_FLAGS)
		return damaged(check, "has a value out of range");
	return 0;
}

static int check_tensors(const struct check *check, const void *record)
{
	const struct tensors_record *tensors = record;

	return tensors->size ? 0 : damaged(check, "has no text");
}

static int check_origin(const struct check *check, const void *record)
{
	const struct origin_record *origin = record;

	return origin->cgroup ? 0 : damaged(check, "has no cgroup");
}

static int check_times(const struct check *check, const void *record)
{
	const struct times_record *times = record;

	return is_string(times->verb, sizeof(times->verb)) && times->verb[0]
		       ? 0
		       : damaged(check, "has no verb");
}

static int check_output(const struct check *check, const void *record)
{
	const struct output_record *output = record;

	return output->n_written >> 62 ? damaged(check, "has a value out of range") : 0;
}

static int check_values(const struct records *records, enum record_type type,
			uint32_t first, uint32_t last, struct text *why)
{
	static int (*const checks[N_RECORD_TYPES])(const struct check *, const void *) = {
		[RECORD_BROKER] = check_broker,
		[RECORD_OWNER] = check_owner,
		[RECORD_BLOCK] = check_block,
		[RECORD_ALLOCATION] = check_allocation,
		[RECORD_LEASE] = check_lease,
		[RECORD_FOLDER] = check_folder,
		[RECORD_EVENT] = check_event,
		[RECORD_FAILURE] = check_failure,
		[RECORD_TEXT] = check_nothing,
		[RECORD_METER] = check_nothing,
		[RECORD_MODULE] = check_module,
		[RECORD_IMAGE] = check_image,
		[RECORD_FUNCTION] = check_function,
		[RECORD_LIFETIME] = check_lifetime,
		[RECORD_STREAM] = check_stream,
		[RECORD_TENSORS] = check_tensors,
		[RECORD_ORIGIN] = check_origin,
		[RECORD_TIMES] = check_times,
		[RECORD_OUTPUT] = check_output,
		[RECORD_PROCESS] = check_nothing,
	};

	struct check check = { records, why, record_layouts[type].name, first };
	const void *record;
	int r = 0;

	for (; r == 0 && (record = records_next(records, type, &check.index)) &&
	       check.index <= last;
	     check.index++)
		r = checks[type](&check, record);
	return r;
}

/* ---- blocks ---- */

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int by_address(const void *a, const void *b)
{
	const struct block_record *const *x = a, *const *y = b;

	return COMPARE((*x)->address, (*y)->address);
}

static int check_overlaps(const struct records *records, struct text *why)
{
	_cleanup_free_ const struct block_record **blocks =
		calloc(records->header->tables[RECORD_BLOCK].n + 1, sizeof(*blocks));
	const struct block_record *block;
	size_t n = 0;

	if (!blocks)
		return -ENOMEM;
	for (uint32_t i = 1; (block = records_next(records, RECORD_BLOCK, &i)); i++)
		blocks[n++] = block;
	qsort(blocks, n, sizeof(*blocks), by_address);
	for (size_t i = 1; i < n; i++) {
		if (blocks[i - 1]->address + blocks[i - 1]->size <= blocks[i]->address)
			continue;
		text_printf(why, "two blocks overlap");
		return -EINVAL;
	}
	return 0;
}

/* ---- pieces ---- */

#define PIECE_RECORDS 16384u

enum piece_of {
	PIECE_VALUES, /* and names, of some records of a type */
	PIECE_ADDRESSES,
	PIECE_TEXTS,
	PIECE_SLOTS,
	N_PIECES_OF_ALL = PIECE_SLOTS,
};

struct record_check {
	enum piece_of of;
	enum record_type type;
	uint32_t first, last;
	struct text why;
	int r;
};

/* Returns: r; with a sentence if it is -EINVAL. */
static int twin_check(int r, const struct twin *twin, struct text *why)
{
	if (r == -EINVAL)
		text_printf(why, "%s record %u %s", record_layouts[twin->type].name,
			    twin->index, twin->sentence);
	return r;
}

static int piece_check(const struct record_checks *checks,
		       const struct record_check *piece, struct text *why)
{
	const struct records *records = checks->records;
	struct twin twin;
	int r;

	switch (piece->of) {
	case PIECE_VALUES:
		r = check_values(records, piece->type, piece->first, piece->last, why);
		if (r < 0)
			return r;
		r = seen_names_add(checks->names, piece->type, piece->first, piece->last,
				   &twin);
		return twin_check(r, &twin, why);
	case PIECE_ADDRESSES:
		return check_overlaps(records, why);
	case PIECE_TEXTS:
		return record_texts_mark(records, checks->text_marks, why);
	case PIECE_SLOTS:
		break;
	}
	r = find_same_slots(records, &twin);
	return twin_check(r, &twin, why);
}

static void check_add(struct record_checks *checks, struct record_check piece)
{
	checks->pieces[checks->n++] = piece;
}

int record_checks_init(struct record_checks *checks, const struct records *records)
{
	uint32_t n = N_PIECES_OF_ALL;

	for (int i = 0; i < N_RECORD_TYPES; i++)
		n += 1 + records->header->tables[i].n / PIECE_RECORDS;
	*checks = (struct record_checks){ .records = records };
	checks->pieces = calloc(n, sizeof(*checks->pieces));
	checks->text_marks = calloc(records->header->tables[RECORD_TEXT].n + 1, 1);
	checks->names = seen_names_new(records);
	if (!checks->pieces || !checks->text_marks || !checks->names)
		return -ENOMEM;
	for (int i = 0; i < N_RECORD_TYPES; i++) {
		for (uint32_t first = 1; first <= records->header->tables[i].n;
		     first += PIECE_RECORDS)
			check_add(checks, (struct record_check){
						  .of = PIECE_VALUES,
						  .type = (enum record_type)i,
						  .first = first,
						  .last = first + PIECE_RECORDS - 1 });
	}
	check_add(checks, (struct record_check){ .of = PIECE_ADDRESSES });
	check_add(checks, (struct record_check){ .of = PIECE_TEXTS });
	check_add(checks, (struct record_check){ .of = PIECE_SLOTS });
	return 0;
}

void record_checks_run(struct record_checks *checks, uint32_t i)
{
	struct record_check *piece = &checks->pieces[checks->n - 1 - i];

	piece->r = piece_check(checks, piece, &piece->why);
}

int record_checks_result(const struct record_checks *checks, struct text *why)
{
	int r = 0;

	for (uint32_t i = 0; i < checks->n; i++) {
		struct record_check *piece = &checks->pieces[i];

		if (r == 0 && piece->r < 0) {
			r = piece->r;
			text_printf(why, "%s", text_string(&piece->why));
		}
	}
	return r;
}

void record_checks_deinit(struct record_checks *checks)
{
	for (uint32_t i = 0; i < checks->n; i++)
		text_deinit(&checks->pieces[i].why);
	free(checks->pieces);
	free(checks->text_marks);
	seen_names_free(checks->names);
}
