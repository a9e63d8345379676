/* SPDX-License-Identifier: MIT */
/*
 * Objects are compared with their records: a value that was changed and not saved would
 * be lost with the broker. In use where the option check_records is on.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/text.h"
#include "model/allocation.h"
#include "model/folder.h"
#include "model/module.h"
#include "model/origin.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "model/save_module.h"
#include "model/save_stream.h"
#include "model/stream.h"
#include "model/tensors.h"
#include "record/records.h"

/* Free slots count, too: a once large table has many. */
#define SLOTS_AT_A_CALL 4

/*
 * Fills in the expected record of an object. Returns: its index; 0: no record is
 * expected.
 */
typedef uint32_t expect_record(const void *object, void *ret_record);

static uint32_t expect_owner(const void *object, void *ret_record)
{
	const struct owner *owner = object;

	owner_to_record(owner, ret_record);
	return owner->record;
}

static uint32_t expect_folder(const void *object, void *ret_record)
{
	const struct folder *folder = object;

	if (!folder->record || !folder->entry.folder)
		return 0;
	folder_to_record(folder, ret_record);
	return folder->record;
}

static uint32_t expect_allocation(const void *object, void *ret_record)
{
	const struct allocation *allocation = object;

	if (allocation->state == ALLOCATION_MAKING)
		return 0;
	allocation_to_record(allocation, ret_record);
	return allocation->record;
}

static uint32_t expect_tensors(const void *object, void *ret_record)
{
	const struct tensors *tensors =
		((const struct allocation *)object)->rare->tensors;

	if (!tensors)
		return 0;
	tensors_to_record(tensors, ret_record);
	return tensors->record;
}

static uint32_t expect_origin(const void *object, void *ret_record)
{
	const struct origin *origin = ((const struct allocation *)object)->origin;

	if (!origin)
		return 0;
	origin_to_record(origin, ret_record);
	return origin->record;
}

static uint32_t expect_module(const void *object, void *ret_record)
{
	const struct module *module = object;

	module_to_record(module, ret_record);
	return module->record;
}

static uint32_t expect_image(const void *object, void *ret_record)
{
	const struct image *image = ((const struct module *)object)->image;

	if (!image)
		return 0;
	image_to_record(image, ret_record);
	return image->record;
}

static uint32_t expect_function(const void *object, void *ret_record)
{
	const struct function *function = object;

	function_to_record(function, ret_record);
	return function->record;
}

static uint32_t expect_stream(const void *object, void *ret_record)
{
	const struct stream *stream = object;

	stream_to_record(stream, ret_record);
	return stream->record;
}

union any_record {
	struct record_head record;
	struct owner_record owner;
	struct folder_record folder;
	struct allocation_record allocation;
	struct module_record module;
	struct image_record image;
	struct function_record function;
	struct stream_record stream;
	struct tensors_record tensors;
	struct origin_record origin;
};

struct comparison {
	enum record_type type;
	const char *name;
	size_t table; /* offset in struct registry */
	size_t record_size;
	expect_record *expect;
};

static int compare_object(const struct registry *registry,
			  const struct comparison *comparison, const void *object,
			  struct text *why)
{
	union any_record expected;
	uint32_t index = comparison->expect(object, &expected);
	const struct record_head *saved =
		records_get(registry->records, comparison->type, index);
	size_t at = sizeof(struct record_head);

	if (!index)
		return 0;
	if (saved && memcmp((const char *)saved + at, (const char *)&expected + at,
			    comparison->record_size - at) == 0)
		return 0;
	while (saved && ((const char *)saved)[at] == ((const char *)&expected)[at])
		at++;
	text_printf(why, "%s %u has no record", comparison->name, index);
	if (saved)
		text_printf(why, " of what it is: they differ at byte %zu", at);
	return -EBADMSG;
}

static int compare_some(const struct registry *registry,
			const struct comparison *comparison, uint32_t *next,
			struct text *why)
{
	const struct handle_table *table =
		(const void *)((const char *)registry + comparison->table);
	const void *object;
	int r = 0;

	for (int n = 0; n < SLOTS_AT_A_CALL && r == 0; n++) {
		if (*next >= table->n_table) {
			*next = 0;
			break;
		}
		object = table->table[(*next)++].object;
		if (object)
			r = compare_object(registry, comparison, object, why);
	}
	return r;
}

/* Saved ids are ahead of those that were given. */
static int compare_broker(const struct registry *registry, struct text *why)
{
	const struct limits_record limits = limits_to_record(&registry->limits);
	const struct broker_record *record =
		records_get(registry->records, RECORD_BROKER, 1);

	for (int i = 0; record && i < N_ID_TYPES; i++) {
		if (registry->next_id[i] <= broker_record_id(record, i))
			continue;
		text_printf(why, "an id is %llu, and at most %llu in the records",
			    (unsigned long long)registry->next_id[i],
			    (unsigned long long)broker_record_id(record, i));
		return -EBADMSG;
	}
	if (record && record->peak_bytes == registry->peak_bytes &&
	    memcmp(&record->limits, &limits, sizeof(limits)) == 0)
		return 0;
	text_printf(why, "the peak or the limits of all have no record of what they are");
	return -EBADMSG;
}

int registry_compare(const struct registry *registry, struct text *why)
{
	static const struct comparison comparisons[] = {
		{ RECORD_OWNER, "owner", offsetof(struct registry, owners),
		  sizeof(struct owner_record), expect_owner },
		{ RECORD_FOLDER, "folder", offsetof(struct registry, folders),
		  sizeof(struct folder_record), expect_folder },
		{ RECORD_ALLOCATION, "allocation", offsetof(struct registry, allocations),
		  sizeof(struct allocation_record), expect_allocation },
		{ RECORD_TENSORS, "tensors", offsetof(struct registry, allocations),
		  sizeof(struct tensors_record), expect_tensors },
		{ RECORD_ORIGIN, "origin", offsetof(struct registry, allocations),
		  sizeof(struct origin_record), expect_origin },
		{ RECORD_MODULE, "module", offsetof(struct registry, modules),
		  sizeof(struct module_record), expect_module },
		{ RECORD_IMAGE, "image", offsetof(struct registry, modules),
		  sizeof(struct image_record), expect_image },
		{ RECORD_FUNCTION, "function", offsetof(struct registry, functions),
		  sizeof(struct function_record), expect_function },
		{ RECORD_STREAM, "stream", offsetof(struct registry, streams),
		  sizeof(struct stream_record), expect_stream },
	};
	static uint32_t next[ARRAY_SIZE(comparisons)]; /* registry.lock */
	int r = compare_broker(registry, why);

	for (size_t i = 0; i < ARRAY_SIZE(comparisons) && r == 0; i++)
		r = compare_some(registry, &comparisons[i], &next[i], why);
	return r;
}
