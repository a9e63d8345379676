/* SPDX-License-Identifier: MIT */
/*
 * The records of a dead broker, damaged: they are refused with a sentence, or loaded, and
 * then fit each other. The input is a list of words of 4 bytes that are written over good
 * records.
 */
#include "record/records.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "fuzz.h"
#include "record/layout.h"
#include "record/texts.h"

struct damage {
	uint16_t at;	/* word in the place */
	uint8_t table;	/* N_RECORD_TYPES: the header; one more: the redo area */
	uint8_t record; /* of a table; 255: the file ends there */
	uint32_t word;
};

static uint32_t add(struct records *records, enum record_type type, void *record)
{
	uint32_t index = records_add(records, type);

	must(index);
	records_save(records, type, index, record);
	return index;
}

/* A change of a lease that was committed, and not yet copied home. */
static void leave_redo(struct records *records)
{
	struct redo_entry *entry =
		(void *)(records->memory + records->header->redo_offset);

	*entry = (struct redo_entry){ RECORD_LEASE, 1 };
	memcpy(entry + 1, records_get(records, RECORD_LEASE, 1),
	       sizeof(struct lease_record));
	records->header->committed =
		(uint32_t)align_up(sizeof(*entry) + sizeof(struct lease_record), 8);
}

/* An event, and a failure with a text of two records. */
static void add_history(struct records *records)
{
	static const char line[] = "2026-11-22T00:00:00Z pid=1 control/free ENOENT there is no "
				   "allocation x\n";
	struct failure_record failure = { .number = 1 };
	struct event_record event = { .number = 1, .length = 1, .line = "\n" };

	add(records, RECORD_EVENT, &event);
	failure.text = record_text_add(records, line, sizeof(line) - 1);
	add(records, RECORD_FAILURE, &failure);
}

/* A module in a folder that a module became, in that of the last one; texts of two
 * pieces. */
static void add_modules(struct records *records, uint32_t i)
{
	static const char bytes[] = "0 4 4 4 =a name that goes on in the next record of a text";
	uint32_t folder = 3 + i; /* behind those of allocations */
	struct folder_record in = { .id = folder,
				    .slot = folder,
				    .slot_generation = 1,
				    .folder = i ? folder - 1 : 0,
				    .of_modules = 1,
				    .name = "f",
				    .module = 2 * i + 1 };
	struct module_record became = { .slot = 2 * i,
					.slot_generation = 1,
					.folder = folder };
	struct module_record module = { .slot = 2 * i + 1,
					.slot_generation = 1,
					.folder = folder,
					.image = i + 1,
					.name = "m" };
	struct image_record image = { .size = 9, .module = 2 * i + 2 };
	struct function_record function = {
		.slot = i, .slot_generation = 1, .image = i + 1, .n_params = i
	};

	module.log = record_text_add(records, bytes, sizeof(bytes) - 1);
	function.text = record_text_add(records, bytes, sizeof(bytes) - 1);
	must(module.log && function.text);
	add(records, RECORD_FOLDER, &in);
	add(records, RECORD_MODULE, &became);
	add(records, RECORD_MODULE, &module);
	add(records, RECORD_IMAGE, &image);
	add(records, RECORD_FUNCTION, &function);
}

/* A process, then a cgroup. Returns: its index. */
static uint32_t add_lifetime(struct records *records, uint32_t i)
{
	static const char key[] = "1000 /user.slice/user-1000.slice/a/path/of/two/pieces";
	struct lifetime_record lifetime = { .kind = i + 1 };

	lifetime.key = record_text_add(records, key, sizeof(key) - 1);
	must(lifetime.key);
	return add(records, RECORD_LIFETIME, &lifetime);
}

/* Returns: its index. */
static uint32_t add_tensors(struct records *records, uint32_t i)
{
	return add(records, RECORD_TENSORS,
		   &(struct tensors_record){ .size = i + 2, .payer = i });
}

/* Returns: its index. */
static uint32_t add_origin(struct records *records, uint32_t i)
{
	static const char cgroup[] =
		"/user.slice/user-1000.slice/user@1000.service/app.slice/job.scope";

	return add(
		records, RECORD_ORIGIN,
		&(struct origin_record){
			.owner = i,
			.cgroup = record_text_add(records, cgroup, sizeof(cgroup) - 1) });
}

static void add_times(struct records *records)
{
	add(records, RECORD_TIMES, &(struct times_record){ .verb = "fill" });
}

static void add_output(struct records *records, uint32_t i)
{
	static struct output_record output;

	output = (struct output_record){ .owner = i, .n_written = 3, .bytes = "hi\n" };
	add(records, RECORD_OUTPUT, &output);
}

static void add_process(struct records *records, uint32_t i)
{
	add(records, RECORD_PROCESS,
	    &(struct process_record){ .pid = 2, .owner = i, .busy = i });
}

/* The default stream of an owner, and one with a failure. */
static void add_streams(struct records *records, uint32_t i)
{
	static const char sentence[] = "cuMemsetD8Async: CUDA_ERROR_UNKNOWN, in two pieces";
	struct stream_record first = { .slot = 2 * i,
				       .slot_generation = 1,
				       .owner = i,
				       .flags = RECORD_DEFAULT | RECORD_UNAWAITED,
				       .name = "default" };
	struct stream_record failed = { .slot = 2 * i + 1,
					.slot_generation = 1,
					.owner = i,
					.flags = RECORD_USED,
					.failed = 5,
					.name = "s" };

	failed.failure = record_text_add(records, sentence, sizeof(sentence) - 1);
	must(failed.failure);
	add(records, RECORD_STREAM, &first);
	add(records, RECORD_STREAM, &failed);
}

/* Two of each type that name each other. */
static struct records *good_records(void)
{
	struct records *records;

	must(records_new(&records) == 0);
	add(records, RECORD_BROKER, &(struct broker_record){ .next_id = { 9, 9, 9, 9 } });
	for (uint32_t i = 0; i < 2; i++) {
		struct owner_record owner = { .uid = i, .slot = i, .slot_generation = 1 };
		struct block_record block = { .address = (i + 1) << 21, .size = 1 << 21 };
		struct allocation_record allocation = {
			.id = i + 1,
			.size = 4096,
			.address = (i + 1) << 21,
			.slot = i,
			.slot_generation = 1,
			.block = i + 1,
			.block_generation = 1,
			.folder = i,
			.name = "x",
			.lifetime = add_lifetime(records, i),
			.tensors = add_tensors(records, i),
			.owner = i,
			.origin = add_origin(records, i),
		};
		struct folder_record folder = { .id = i + 1,
						.slot = i,
						.slot_generation = 1,
						.folder = i,
						.name = "f" };
		struct lease_record lease = { .id = i + 1,
					      .file = ((uint64_t)1 << 32) + i,
					      .allocation = i + 1 };

		add(records, RECORD_OWNER, &owner);
		add(records, RECORD_BLOCK, &block);
		add(records, RECORD_FOLDER, &folder);
		add(records, RECORD_ALLOCATION, &allocation);
		add(records, RECORD_LEASE, &lease);
	}
	add_history(records);
	for (uint32_t i = 0; i < 2; i++) {
		add_modules(records, i);
		add_streams(records, i);
		add_output(records, i);
		add_process(records, i);
		if (i == 0)
			add_times(records);
	}
	leave_redo(records);
	return records;
}

/* header: as it was before all damage. */
static void put_damage(const struct records *records, const struct records_header *header,
		       const struct damage *damage)
{
	uint8_t table = damage->table % (N_RECORD_TYPES + 2);
	uint64_t at = 0;

	if (table == N_RECORD_TYPES + 1)
		at = header->redo_offset;
	else if (table < N_RECORD_TYPES)
		at = header->tables[table].offset +
		     (uint64_t)(damage->record % 8) * header->tables[table].record_size;
	at += damage->at % 1024 * (uint64_t)4;
	if (damage->record == 255)
		must(ftruncate(records->fd, (off_t)at) == 0);
	else
		must(pwrite(records->fd, &damage->word, 4, (off_t)at) == 4);
}

static void check_text(const struct records *records, uint32_t index)
{
	_cleanup_text_ struct text text = TEXT_INIT;

	record_text_show(records, index, &text);
	must(text.length <= RECORD_TEXT_MAX);
}

static void check_modules(const struct records *records)
{
	const struct module_record *module;
	const struct image_record *image;
	const struct function_record *function;

	for (uint32_t i = 1; (module = records_next(records, RECORD_MODULE, &i)); i++) {
		must(memchr(module->name, 0, sizeof(module->name)));
		image = records_get(records, RECORD_IMAGE, module->image);
		must(!module->image || (image && image->module == i));
		check_text(records, module->log);
	}
	for (uint32_t i = 1; (function = records_next(records, RECORD_FUNCTION, &i));
	     i++) {
		must(records_get(records, RECORD_IMAGE, function->image));
		must(function->text);
		check_text(records, function->text);
	}
}

static void check_lifetimes(const struct records *records)
{
	const struct lifetime_record *lifetime;

	for (uint32_t i = 1; (lifetime = records_next(records, RECORD_LIFETIME, &i));
	     i++) {
		must(lifetime->kind == 1 || lifetime->kind == 2);
		must(lifetime->key);
		check_text(records, lifetime->key);
	}
}

static void check_origins(const struct records *records)
{
	const struct origin_record *origin;

	for (uint32_t i = 1; (origin = records_next(records, RECORD_ORIGIN, &i)); i++) {
		must(origin->cgroup);
		check_text(records, origin->cgroup);
	}
}

static void check_streams(const struct records *records)
{
	const struct stream_record *stream;

	for (uint32_t i = 1; (stream = records_next(records, RECORD_STREAM, &i)); i++) {
		must(memchr(stream->name, 0, sizeof(stream->name)));
		must(!(stream->flags & ~RECORD_STREAM_FLAGS));
		check_text(records, stream->failure);
	}
}

static void check_loaded(const struct records *records)
{
	const struct allocation_record *allocation;
	const struct failure_record *failure;
	const struct lease_record *lease;
	const struct block_record *block;

	for (uint32_t i = 1;
	     (allocation = records_next(records, RECORD_ALLOCATION, &i)); i++) {
		must(memchr(allocation->name, 0, sizeof(allocation->name)));
		must(!allocation->lifetime ||
		     records_get(records, RECORD_LIFETIME, allocation->lifetime));
		must(!allocation->tensors ||
		     records_get(records, RECORD_TENSORS, allocation->tensors));
		must(!allocation->origin ||
		     records_get(records, RECORD_ORIGIN, allocation->origin));
		block = records_get(records, RECORD_BLOCK, allocation->block);
		if (!block || allocation->flags & RECORD_FREED)
			continue;
		must(allocation->address >= block->address);
		must(allocation->size <= block->size);
		must(allocation->address - block->address <= block->size - allocation->size);
	}
	for (uint32_t i = 1; (lease = records_next(records, RECORD_LEASE, &i)); i++)
		must(records_get(records, RECORD_ALLOCATION, lease->allocation));
	for (uint32_t i = 1; (failure = records_next(records, RECORD_FAILURE, &i)); i++)
		check_text(records, failure->text);
	check_modules(records);
	check_lifetimes(records);
	check_streams(records);
	check_origins(records);
}

int fuzz(const uint8_t *bytes, size_t size)
{
	_cleanup_text_ struct text why = TEXT_INIT, text = TEXT_INIT;
	struct records *records = good_records(), *next;
	const struct records_header header = *records->header;
	struct damage damage;
	int r;

	for (; size >= sizeof(damage); bytes += sizeof(damage), size -= sizeof(damage)) {
		memcpy(&damage, bytes, sizeof(damage));
		put_damage(records, &header, &damage);
	}
	r = records_open(&next, records->fd, &why);
	must(r == 0 || (r == -EINVAL && why.length));
	if (r == 0) {
		check_loaded(next);
		records_print(next, &text);
		records_free(next);
	}
	records_free(records);
	return 0;
}
