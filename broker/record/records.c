/* SPDX-License-Identifier: MIT */
#include "record/records.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/crash.h"
#include "base/text.h"
#include "record/layout.h"
#include "record/texts.h"

#define REDO_SIZE ((uint64_t)16 << 20)
/* A group of this size is resident from the start. */
#define REDO_RESIDENT ((off_t)1 << 20)

const struct record_layout record_layouts[N_RECORD_TYPES] = {
	[RECORD_BROKER] = { "broker", sizeof(struct broker_record), 2 },
	[RECORD_OWNER] = { "owner", sizeof(struct owner_record), 1u << 20 },
	[RECORD_BLOCK] = { "block", sizeof(struct block_record), 1u << 20 },
	[RECORD_ALLOCATION] = { "allocation", sizeof(struct allocation_record),
				1u << 23 },
	[RECORD_LEASE] = { "lease", sizeof(struct lease_record), 1u << 20 },
	[RECORD_FOLDER] = { "folder", sizeof(struct folder_record), 1u << 23 },
	[RECORD_EVENT] = { "event", sizeof(struct event_record), RECORD_EVENTS + 1 },
	[RECORD_FAILURE] = { "failure", sizeof(struct failure_record), 1u << 20 },
	[RECORD_TEXT] = { "text", sizeof(struct text_record), 1u << 24 },
	[RECORD_METER] = { "meter", sizeof(struct meter_record), 1u << 20 },
	[RECORD_MODULE] = { "module", sizeof(struct module_record), 1u << 20 },
	[RECORD_IMAGE] = { "image", sizeof(struct image_record), 1u << 20 },
	[RECORD_FUNCTION] = { "function", sizeof(struct function_record), 1u << 23 },
	[RECORD_LIFETIME] = { "lifetime", sizeof(struct lifetime_record), 1u << 20 },
	[RECORD_STREAM] = { "stream", sizeof(struct stream_record), 1u << 20 },
	[RECORD_TENSORS] = { "tensors", sizeof(struct tensors_record), 1u << 20 },
	[RECORD_ORIGIN] = { "origin", sizeof(struct origin_record), 1u << 20 },
	[RECORD_TIMES] = { "times", sizeof(struct times_record), 1u << 10 },
	[RECORD_OUTPUT] = { "output", sizeof(struct output_record), 1u << 16 },
	[RECORD_PROCESS] = { "process", sizeof(struct process_record), 1u << 17 },
};

/*
 * The compiler keeps the stores on both sides apart. The processor needs no order: a
 * killed process stops between two instructions, and all its stores are in memory.
 */
static inline void stored(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	crash_point("records: a store");
}

/* ---- the memfd ---- */

static uint64_t layout_fill(struct records_header *header)
{
	uint64_t offset = 4096;

	memcpy(header->magic, RECORDS_MAGIC, sizeof(header->magic));
	header->version = RECORDS_VERSION;
	header->boot = 1;
	header->n_tables = N_RECORD_TYPES;
	header->redo_offset = offset;
	header->redo_size = REDO_SIZE;
	offset += REDO_SIZE;
	for (int i = 0; i < N_RECORD_TYPES; i++) {
		const struct record_layout *layout = &record_layouts[i];
		struct table_header *table = &header->tables[i];

		strcpy(table->name, layout->name);
		table->record_size = layout->size;
		table->capacity = layout->capacity;
		table->offset = offset;
		offset += align_up((uint64_t)layout->size * layout->capacity, 4096);
	}
	return offset;
}

static int records_map(struct records *records, uint64_t size)
{
	void *memory;

	records->fd = memfd_create("gpumem-records", MFD_CLOEXEC);
	if (records->fd < 0)
		return -errno;
	/* All sizes are reserved, and pages come as they are needed: nothing ever moves.
	 */
	if (ftruncate(records->fd, (off_t)size) < 0 ||
	    fallocate(records->fd, 0, 0, 4096 + REDO_RESIDENT) < 0)
		return errno == ENOSPC ? -ENOMEM : -errno;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		      records->fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	(void)madvise(memory, size, MADV_DONTDUMP);
	records->memory = memory;
	records->size = size;
	records->header = memory;
	return 0;
}

int records_new(struct records **ret_records)
{
	struct records *records = calloc(1, sizeof(*records));
	struct records_header header = { 0 };
	pthread_mutexattr_t recursive;
	int r;

	if (!records)
		return -ENOMEM;
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&records->lock, &recursive);
	pthread_mutexattr_destroy(&recursive);
	records->fd = -1;
	r = records_map(records, layout_fill(&header));
	if (r < 0) {
		records_free(records);
		return r;
	}
	*records->header = header;
	*ret_records = records;
	return 0;
}

struct records *records_free(struct records *records)
{
	if (!records)
		return NULL;
	if (records->memory)
		munmap(records->memory, records->size);
	closep(&records->fd);
	for (int i = 0; i < N_RECORD_TYPES; i++)
		free(records->free[i]);
	pthread_mutex_destroy(&records->lock);
	free(records);
	return NULL;
}

int records_fd(const struct records *records)
{
	return records->fd;
}

uint32_t records_boot(const struct records *records)
{
	return records->header->boot;
}

struct token_ends *records_token_ends(struct records *records)
{
	return &records->header->token_ends;
}

/* ---- reading ---- */

/* Only adding takes the lock here. Records are read under the lock of their objects. */
static uint32_t table_n(const struct records *records, enum record_type type)
{
	return __atomic_load_n(&records->header->tables[type].n, __ATOMIC_ACQUIRE);
}

const void *records_get(const struct records *records, enum record_type type,
			uint32_t index)
{
	const struct record_head *record;

	if (!records || !index || index > table_n(records, type))
		return NULL;
	record = record_at(records, type, index);
	return record->state == RECORD_LIVE ? record : NULL;
}

uint32_t records_generation(const struct records *records, enum record_type type,
			    uint32_t index)
{
	return records && index ? record_at(records, type, index)->generation : 0;
}

const void *records_next(const struct records *records, enum record_type type,
			 uint32_t *index)
{
	const void *record;

	for (; *index <= table_n(records, type); (*index)++) {
		record = records_get(records, type, *index);
		if (record)
			return record;
	}
	return NULL;
}

uint32_t records_last(const struct records *records, enum record_type type)
{
	return table_n(records, type);
}

/* ---- writing ---- */

bool records_grow(struct records *records, enum record_type type, uint32_t index)
{
	struct table_header *table = &records->header->tables[type];
	uint32_t step = MAX(RECORDS_STEP / table->record_size, 1u);
	uint32_t n = MIN(index + step, table->capacity);
	/* The end of the last page is there already. */
	uint64_t from =
		align_up((uint64_t)records->n_resident[type] * table->record_size, 4096);
	uint64_t to = align_up((uint64_t)n * table->record_size, 4096);
	uint32_t *list;

	if (index >= table->capacity)
		return false;
	if (index < records->n_resident[type])
		return true;
	list = realloc(records->free[type], n * sizeof(*list));
	if (!list)
		return false;
	records->free[type] = list;
	if (from < to && fallocate(records->fd, 0, (off_t)(table->offset + from),
				   (off_t)(to - from)) < 0)
		return false;
	records->n_resident[type] = n;
	return true;
}

/* The last of those let go of moves to the place of the one that is taken. */
static uint32_t free_take(struct records *records, enum record_type type)
{
	uint32_t *list = records->free[type];
	uint32_t at = --records->n_free[type], index = list[at];

	list[at] = list[at + records->n_let_go[type]];
	return index;
}

uint32_t records_add(struct records *records, enum record_type type)
{
	struct table_header *table;
	uint32_t index = 0;

	if (!records)
		return 0;
	table = &records->header->tables[type];
	pthread_mutex_lock(&records->lock);
	if (records->n_free[type]) {
		index = free_take(records, type);
	} else if (records_grow(records, type, table->n + 1)) {
		index = table->n + 1;
		record_at(records, type, index)->generation = 1;
		stored();
		__atomic_store_n(&table->n, index, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&records->lock);
	return index;
}

int records_take(struct records *records, enum record_type type, uint32_t *ret_index)
{
	*ret_index = records_add(records, type);
	return records && !*ret_index ? -ENOMEM : 0;
}

void records_redo(struct records *records)
{
	const uint8_t *redo = records->memory + records->header->redo_offset;

	for (uint32_t at = 0; at < records->header->committed;) {
		const struct redo_entry *entry = (const void *)(redo + at);
		uint32_t size = records->header->tables[entry->type].record_size;

		memcpy(record_at(records, (enum record_type)entry->type, entry->index),
		       entry + 1, size);
		stored();
		at += (uint32_t)align_up(sizeof(*entry) + size, 8);
	}
	stored();
	records->header->committed = 0;
	stored();
}

void records_begin(struct records *records)
{
	if (!records)
		return;
	pthread_mutex_lock(&records->lock);
	records->depth++;
}

void records_end(struct records *records)
{
	if (!records)
		return;
	assert(records->depth);
	if (--records->depth == 0 && records->n_redo) {
		stored();
		records->header->committed = records->n_redo;
		stored();
		records_redo(records);
		records->n_redo = 0;
	}
	for (int i = 0; records->depth == 0 && i < N_RECORD_TYPES; i++) {
		records->n_free[i] += records->n_let_go[i];
		records->n_let_go[i] = 0;
	}
	pthread_mutex_unlock(&records->lock);
}

/* Appends a record to the group; NULL bytes: the record is freed. */
static void redo_add(struct records *records, enum record_type type, uint32_t index,
		     const void *bytes)
{
	uint32_t size = records->header->tables[type].record_size;
	const struct record_head *home = record_at(records, type, index);
	struct redo_entry *entry =
		(void *)(records->memory + records->header->redo_offset +
			 records->n_redo);
	struct record_head *record = (void *)(entry + 1);

	assert(records->n_redo + sizeof(*entry) + size + 8 < REDO_SIZE);
	entry->type = type;
	entry->index = index;
	if (bytes)
		memcpy(record, bytes, size);
	else
		memset(record, 0, size);
	record->state = bytes ? RECORD_LIVE : RECORD_FREE;
	record->generation = home->generation + !bytes;
	records->n_redo += (uint32_t)align_up(sizeof(*entry) + size, 8);
	stored();
}

void records_save(struct records *records, enum record_type type, uint32_t index,
		  void *record)
{
	if (!records || !index)
		return;
	records_begin(records);
	redo_add(records, type, index, record);
	records_end(records);
}

bool records_write(struct records *records, enum record_type type, uint32_t index,
		   size_t offset, const uint64_t *words, size_t n_words)
{
	struct record_head *record;
	uint64_t *home;
	bool done;

	if (!records || !index)
		return true;
	pthread_mutex_lock(&records->lock);
	record = record_at(records, type, index);
	done = records->depth == 0 && record->state == RECORD_LIVE;
	home = (uint64_t *)((uint8_t *)record + offset);
	for (size_t i = 0; done && i < n_words; i++)
		__atomic_store_n(&home[i], words[i], __ATOMIC_RELAXED);
	pthread_mutex_unlock(&records->lock);
	return done;
}

void *records_place(struct records *records, enum record_type type, uint32_t index)
{
	return (void *)records_get(records, type, index);
}

void records_put_event(struct event_record *event, uint64_t number, const char *line,
		       size_t length)
{
	assert(length <= sizeof(event->line));
	event->number = 0;
	stored();
	event->length = (uint32_t)length;
	memcpy(event->line, line, length);
	stored();
	event->number = number;
	stored();
}

void records_drop(struct records *records, enum record_type type, uint32_t index)
{
	if (!records || !index)
		return;
	records_begin(records);
	redo_add(records, type, index, NULL);
	assert(!records->n_let_go[type]);
	records->free[type][records->n_free[type]++] = index;
	records_end(records);
}

void records_let_go(struct records *records, enum record_type type, uint32_t index)
{
	pthread_mutex_lock(&records->lock);
	records->free[type][records->n_free[type] + records->n_let_go[type]++] = index;
	pthread_mutex_unlock(&records->lock);
}
