/* SPDX-License-Identifier: MIT */
/*
 * The start of a broker after another one's death. All objects in the records are made
 * again: owners, blocks (the keeper has their memory), allocations, leases. Memory of a
 * worker is lost, as when a worker is killed. Descriptors without a record are closed.
 *
 * The old records are only read. When everything is there, the new records take their
 * place at the keeper in a single step.
 */
#include "api/resume.h"
#include "api/broker.h"
#include "api/line_times.h"
#include "api/resume_private.h"
#include "api/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "base/crash.h"
#include "base/def.h"
#include "base/text.h"
#include "keep/keep.h"
#include "memory/block.h"
#include "memory/kept.h"
#include "model/folder.h"
#include "model/journal.h"
#include "model/meter.h"
#include "model/module.h"
#include "model/owner.h"
#include "model/registry.h"
#include "model/save.h"
#include "model/save_module.h"
#include "model/save_stream.h"
#include "process/broker.h"
#include "process/output.h"
#include "process/processes.h"
#include "record/records.h"
#include "record/texts.h"

/* For an array by index. */
static uint32_t count(const struct resume *resume, enum record_type type)
{
	return records_last(resume->records, type) + 1;
}

int resume_fail(const struct resume *resume, int r, const char *what, uint32_t index)
{
	text_printf(resume->why, "%s %u of the last broker: %s", what, index,
		    strerror(-r));
	return r;
}

/* ---- in the order of slots ---- */

struct place {
	uint32_t slot;
	uint32_t index;
};

static int place_compare(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return (x->slot > y->slot) - (x->slot < y->slot);
}

/* Makes again the objects of all records of a type. */
struct step {
	enum record_type type;
	size_t slot; /* offset in the record, of a uint32_t; 0: in any order */
	int (*restore)(struct resume *resume, uint32_t index, const void *record);
	size_t table; /* of the objects: offset in struct registry; 0: none */
};

/* Returns: 0; -errno with a sentence. */
static int resume_in_order(struct resume *resume, const struct step *step)
{
	uint32_t n = 0;
	_cleanup_free_ struct place *places =
		calloc(count(resume, step->type), sizeof(*places));
	const char *record;
	int r = 0;

	if (!places)
		return -ENOMEM;
	for (uint32_t i = 1; (record = records_next(resume->records, step->type, &i));
	     i++)
		places[n++] =
			(struct place){ *(const uint32_t *)(record + step->slot), i };
	qsort(places, n, sizeof(*places), place_compare);
	for (uint32_t i = 0; i < n && r == 0; i++) {
		r = step->restore(
			resume, places[i].index,
			records_get(resume->records, step->type, places[i].index));
		crash_point("resume: an object is made again");
	}
	return r;
}

/* Where there are very many, looking for the order takes longer than making them. */
static int resume_in_any_order(struct resume *resume, const struct step *step)
{
	const void *record;
	int r = 0;

	for (uint32_t i = 1;
	     r == 0 && (record = records_next(resume->records, step->type, &i)); i++) {
		r = step->restore(resume, i, record);
		crash_point("resume: an object is made again");
	}
	return r;
}

static int resume_each(struct resume *resume, const struct step *step)
{
	int r = step->slot ? resume_in_order(resume, step)
			   : resume_in_any_order(resume, step);

	if (r == 0 && step->table)
		handle_table_settle(
			(void *)((char *)resume->broker->registry + step->table));
	return r;
}

/* ---- each type ---- */

static int resume_devices(const struct resume *resume)
{
	const struct registry *registry = resume->broker->registry;
	const struct broker_record *record =
		records_get(resume->records, RECORD_BROKER, 1);
	bool same = record && record->n_devices == registry->n_devices;

	for (uint32_t i = 0; same && i < registry->n_devices; i++)
		same = strcmp(record->uuid[i], registry->device_at[i]->uuid) == 0;
	if (same)
		return 0;
	text_printf(resume->why, "the devices are not those of the last broker");
	return -ENODEV;
}

static int resume_owner(struct resume *resume, uint32_t index, const void *record)
{
	int r = owner_restore(resume->broker->registry, index, record);

	return r < 0 ? resume_fail(resume, r, "owner", index) : 0;
}

static int resume_output(struct resume *resume, uint32_t index, const void *data)
{
	const struct output_record *record = data;
	struct broker *broker = resume->broker;
	struct owner *owner = owner_make(broker->registry, record->owner);

	if (owner)
		owner->output = output_restore(&broker->processes->outputs,
					       broker->registry->records, index);
	return owner && owner->output ? 0 : resume_fail(resume, -ENOMEM, "output", index);
}

/* A worker that must not be started, or may not be soon. */
static int resume_worker(struct resume *resume, uint32_t index, const void *data)
{
	const struct owner_record *record = data;
	struct owner *owner = owner_find(resume->broker->registry, record->uid);

	return !record->n_barren || worker_of(resume->broker, owner)
		       ? 0
		       : resume_fail(resume, -ENOMEM, "owner", index);
}

static int resume_stream(struct resume *resume, uint32_t index, const void *data)
{
	const struct stream_record *record = data;
	struct broker *broker = resume->broker;
	struct owner *owner = owner_make(broker->registry, record->owner);
	int r = owner ? stream_restore(broker->registry, broker->journal, owner, index,
				       record)
		      : -ENOMEM;

	return r < 0 ? resume_fail(resume, r, "stream", index) : 0;
}

static int resume_folder(struct resume *resume, uint32_t index, const void *data)
{
	const struct folder_record *record = data;
	struct registry *registry = resume->broker->registry;
	struct owner *owner = owner_make(registry, record->owner);
	int r = owner ? folder_restore(&resume->folders[index], registry, owner, index,
				       record)
		      : -ENOMEM;

	return r < 0 ? resume_fail(resume, r, "folder", index) : 0;
}

struct folder *resume_folder_at(const struct resume *resume, bool of_modules,
				uint32_t index)
{
	struct registry *registry = resume->broker->registry;

	if (index)
		return resume->folders[index];
	return of_modules ? &registry->module_root : &registry->allocation_root;
}

/* Puts a folder into the tree, the folders above first. Returns: 0; -errno. */
static int resume_place(struct resume *resume, uint32_t index, const void *data)
{
	const struct folder_record *record = data;
	struct folder *folder = resume->folders[index];
	int r = 0;

	if (folder->entry.folder)
		return 0;
	if (strlen(record->name) > OBJECT_NAME_MAX)
		return resume_fail(resume, -ENAMETOOLONG, "folder", index);
	if (record->folder)
		r = resume_place(
			resume, record->folder,
			records_get(resume->records, RECORD_FOLDER, record->folder));
	if (r == 0)
		r = entry_restore_at(
			&folder->entry,
			resume_folder_at(resume, record->of_modules, record->folder),
			strdup(record->name), record->place);
	return r < 0 ? resume_fail(resume, r, "folder", index) : 0;
}

/*
 * Puts a module into its folder. A module that has become a folder is linked to that
 * folder.
 */
static int resume_place_module(struct resume *resume, struct module *module,
			       const struct module_record *record)
{
	struct folder *folder = resume_folder_at(resume, true, record->folder);

	if (strlen(record->name) > OBJECT_NAME_MAX)
		return -ENAMETOOLONG;
	if (record->name[0])
		return module_place(resume->broker->registry, module, folder,
				    record->name, record->place);
	module->folder = folder;
	folder->module = module;
	return 0;
}

int resume_file(const struct resume *resume, enum record_type type, uint32_t index,
		uint64_t size)
{
	_cleanup_close_ int fd = kept_take(resume->broker->memory, type, index);
	struct stat stat;

	if (fd < 0 || fstat(fd, &stat) < 0 || (uint64_t)stat.st_size < size)
		return -EBADF;
	return take_fd(&fd);
}

static int resume_image(struct resume *resume, struct module *module, uint32_t index)
{
	const struct image_record *record =
		records_get(resume->records, RECORD_IMAGE, index);
	_cleanup_close_ int fd = resume_file(resume, RECORD_IMAGE, index, record->size);
	int r;

	if (fd < 0)
		return fd;
	r = image_restore(resume->broker->registry, module, index, record, fd);
	if (r < 0)
		return r;
	(void)take_fd(&fd);
	resume->images[index] = module->image;
	return 0;
}

static int resume_module(struct resume *resume, uint32_t index, const void *data)
{
	const struct module_record *record = data;
	struct registry *registry = resume->broker->registry;
	struct owner *owner = owner_make(registry, record->owner);
	struct module *module;
	int r = owner ? module_restore(&module, registry, owner, index, record) : -ENOMEM;

	if (r == 0)
		r = resume_place_module(resume, module, record);
	if (r == 0 && record->image)
		r = resume_image(resume, module, record->image);
	return r < 0 ? resume_fail(resume, r, "module", index) : 0;
}

static void function_forget(struct records *records, uint32_t index, uint32_t text)
{
	records_begin(records);
	records_drop(records, RECORD_FUNCTION, index);
	record_text_drop(records, text);
	records_end(records);
}

/* An image without a module was still in use, or not yet loaded. */
static int resume_function(struct resume *resume, uint32_t index, const void *data)
{
	const struct function_record *record = data;
	struct registry *registry = resume->broker->registry;
	int r;

	if (!resume->images[record->image]) {
		function_forget(registry->records, index, record->text);
		return 0;
	}
	r = function_restore(registry, resume->images[record->image], index, record);
	return r < 0 ? resume_fail(resume, r, "function", index) : 0;
}

/* keep_drop_rest() follows. */
static void resume_forget_images(const struct resume *resume)
{
	for (uint32_t i = 1; records_next(resume->records, RECORD_IMAGE, &i); i++) {
		if (!resume->images[i])
			records_drop(resume->broker->registry->records, RECORD_IMAGE, i);
	}
}

/* Runs once, when all entries are in their folders. */
static int resume_listings(struct resume *resume, uint32_t index, const void *record)
{
	struct registry *registry = resume->broker->registry;
	int r = folder_settle(&registry->allocation_root);

	(void)record;
	if (r == 0)
		r = folder_settle(&registry->module_root);
	for (index = 1; r == 0 && records_next(resume->records, RECORD_FOLDER, &index);
	     index++)
		r = folder_settle(resume->folders[index]);
	return r < 0 ? resume_fail(resume, r, "folder", index) : 0;
}

#define TABLE(name) offsetof(struct registry, name)

static int resume_objects(struct resume *resume)
{
	/* Each step makes objects named by the records of later steps. */
	static const struct step steps[] = {
		{ RECORD_OWNER, offsetof(struct owner_record, slot), resume_owner,
		  TABLE(owners) },
		{ RECORD_OUTPUT, offsetof(struct output_record, owner), resume_output },
		{ RECORD_OWNER, offsetof(struct owner_record, slot), resume_worker },
		{ RECORD_STREAM, offsetof(struct stream_record, slot), resume_stream,
		  TABLE(streams) },
		{ RECORD_FOLDER, offsetof(struct folder_record, slot), resume_folder,
		  TABLE(folders) },
		{ RECORD_FOLDER, offsetof(struct folder_record, slot), resume_place },
		{ RECORD_LIFETIME, offsetof(struct lifetime_record, key),
		  resume_lifetime },
		{ RECORD_MODULE, offsetof(struct module_record, slot), resume_module,
		  TABLE(modules) },
		{ RECORD_FUNCTION, offsetof(struct function_record, slot),
		  resume_function, TABLE(functions) },
		{ RECORD_BROKER, 0, resume_remake },
		{ RECORD_ALLOCATION, 0, resume_allocation, TABLE(allocations) },
		{ RECORD_PROCESS, 0, resume_process },
		{ RECORD_BROKER, 0, resume_listings },
		{ RECORD_BROKER, 0, resume_freed },
		/* The number of an open file has its slot in the low half. */
		{ RECORD_LEASE, offsetof(struct lease_record, file), resume_lease },
	};
	int r = resume_devices(resume);

	resume->blocks = calloc(count(resume, RECORD_BLOCK), sizeof(*resume->blocks));
	resume->payers = calloc(count(resume, RECORD_BLOCK), sizeof(*resume->payers));
	resume->allocations =
		calloc(count(resume, RECORD_ALLOCATION), sizeof(*resume->allocations));
	resume->leased = resume_leased(resume, count(resume, RECORD_ALLOCATION));
	resume->n_folders = count(resume, RECORD_FOLDER);
	resume->folders = calloc(resume->n_folders, sizeof(*resume->folders));
	resume->images = calloc(count(resume, RECORD_IMAGE), sizeof(*resume->images));
	resume->tensors = calloc(count(resume, RECORD_TENSORS), sizeof(*resume->tensors));
	resume->origins = calloc(count(resume, RECORD_ORIGIN), sizeof(*resume->origins));
	resume->n_lifetimes = count(resume, RECORD_LIFETIME);
	resume->lifetimes = calloc(resume->n_lifetimes, sizeof(*resume->lifetimes));
	if (!resume->blocks || !resume->payers || !resume->allocations ||
	    !resume->leased || !resume->folders || !resume->images || !resume->tensors ||
	    !resume->origins || !resume->lifetimes)
		r = -ENOMEM;
	pthread_mutex_lock(&resume->broker->registry->lock);
	for (size_t i = 0; i < ARRAY_SIZE(steps) && r == 0; i++)
		r = resume_each(resume, &steps[i]);
	if (r == 0) {
		resume_forget_images(resume);
		r = resume_forget_blocks(resume);
		resume_forget_tensors(resume);
		resume_forget_origins(resume);
		meters_drop_rest(resume->broker->registry);
	}
	pthread_mutex_unlock(&resume->broker->registry->lock);
	return r;
}

static void resume_deinit(struct resume *resume)
{
	free(resume->blocks);
	free(resume->payers);
	free(resume->allocations);
	resume_drop_remade(resume);
	free(resume->n_names);
	free(resume->folders);
	free(resume->images);
	free(resume->lifetimes);
	free(resume->tensors);
	free(resume->leased);
	free(resume->origins);
}

static void resume_restarts(struct processes *processes, const struct records *records)
{
	const struct broker_record *record = records_get(records, RECORD_BROKER, 1);

	if (!record)
		return;
	processes->restarts = record->restarts;
	processes->mover_restarts = record->mover_restarts;
}

int broker_print_records(const char *path, struct text *text)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct records *records;
	int r;

	if (fd < 0)
		return -errno;
	r = records_open(&records, fd, text);
	if (r < 0)
		return r;
	records_print(records, text);
	records_free(records);
	return text_failed(text) ? -ENOMEM : 0;
}

/*
 * Until here nothing of the last broker was changed: if still alive, that broker could go
 * on.
 */
static int take_over(struct resume *resume, struct records *records)
{
	const struct keep_key key = { KEEP_RECORDS, 0, 0 };
	int r = keep_take_over(resume->keep);

	return r < 0 ? r : keep_put(resume->keep, key, records_fd(records));
}

int broker_resume(struct broker *broker, struct keep *keep, struct text *why)
{
	const struct keep_key key = { KEEP_RECORDS, 0, 0 };
	_cleanup_(resume_deinit) struct resume resume = { .broker = broker,
							  .keep = keep,
							  .why = why };
	_cleanup_close_ int old = keep_take(keep, key);
	struct records *records;
	int r;

	if (!keep && !records_are_watched())
		return 0;
	crash_point("resume: before the records are opened");
	r = old >= 0 ? records_open(&records, old, why) : records_new(&records);
	if (r < 0)
		return r;
	broker->memory->records = records;
	broker->memory->keep = keep;
	resume.records = records;
	pthread_mutex_lock(&broker->registry->lock);
	r = registry_keep_records(broker->registry, records);
	pthread_mutex_unlock(&broker->registry->lock);
	if (r == 0)
		r = journal_keep_records(broker->journal, records);
	if (r == 0)
		r = line_times_keep_records(broker->line_times, records);
	crash_point("resume: records are open");
	if (r == 0 && old >= 0)
		resume_restarts(broker->processes, records);
	if (r == 0 && old >= 0)
		r = resume_objects(&resume);
	crash_point("resume: all objects are there");
	pthread_mutex_lock(&broker->registry->lock);
	if (r == 0)
		registry_save(broker->registry);
	pthread_mutex_unlock(&broker->registry->lock);
	if (r == 0)
		r = take_over(&resume, records);
	if (r < 0)
		return r;
	pthread_mutex_lock(&broker->registry->lock);
	if (old >= 0) {
		resume_end_processes(&resume);
		resume_close_backings(&resume);
		resume_frees(&resume);
		r = resume_watch(&resume);
	}
	pthread_mutex_unlock(&broker->registry->lock);
	resume_give_back(&resume);
	if (r == 0)
		watch_records(broker->registry);
	return r;
}
