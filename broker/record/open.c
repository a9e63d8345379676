/* SPDX-License-Identifier: MIT */
/*
 * The records of a dead broker are checked, and copied to a memfd of the next broker's
 * own. The old ones are never changed: if this broker dies, too, another reads them.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/text.h"
#include "record/layout.h"
#include "record/texts.h"

static int refuse_records(struct text *why, const char *sentence)
{
	text_printf(why, "%s", sentence);
	return -EINVAL;
}

static int refuse_newer(struct text *why, const char *name)
{
	text_printf(why,
		    "%s records are larger than this program knows them: they are of a "
		    "newer version",
		    name);
	return -EINVAL;
}

/* resident: bytes of the file that have memory; all others are holes. */
static int old_check_header(const struct records_header *header, uint64_t size,
			    uint64_t resident, struct text *why)
{
	uint64_t used = 0;

	if (memcmp(header->magic, RECORDS_MAGIC, sizeof(header->magic)) != 0)
		return refuse_records(why, "these are no records of gpumem");
	if (header->version != RECORDS_VERSION)
		return refuse_records(why, "the records are of another version");
	if (header->n_tables > N_RECORD_TYPES)
		return refuse_records(why, "the records have tables of a newer version");
	if (header->redo_offset > size ||
	    header->redo_size > size - header->redo_offset || header->redo_offset % 8 ||
	    header->committed > header->redo_size)
		return refuse_records(why, "the redo area is outside of the records");
	for (uint32_t i = 0; i < header->n_tables; i++) {
		const struct table_header *table = &header->tables[i];
		uint64_t bytes = (uint64_t)table->record_size * table->capacity;

		if (strncmp(table->name, record_layouts[i].name, sizeof(table->name)) !=
			    0 ||
		    table->record_size < sizeof(struct record_head) ||
		    table->record_size % 8 || table->offset % 8 || table->offset > size ||
		    bytes > size - table->offset || table->n >= table->capacity ||
		    table->capacity > record_layouts[i].capacity)
			return refuse_records(why, "a table of the records is damaged");
		if (table->record_size > record_layouts[i].size)
			return refuse_newer(why, table->name);
		/* Else copying home would change bytes not yet copied. */
		if (table->offset < header->redo_offset + header->redo_size &&
		    header->redo_offset < table->offset + bytes)
			return refuse_records(why,
					      "the redo area is not beside the tables");
		used += (uint64_t)table->n * table->record_size;
	}
	if (used > resident)
		return refuse_records(why, "a table of the records is damaged");
	return 0;
}

static int old_check_redo(const struct records *old, struct text *why)
{
	const uint8_t *redo = old->memory + old->header->redo_offset;
	uint64_t left = old->header->committed, size;

	for (; left; left -= size, redo += size) {
		const struct redo_entry *entry = (const void *)redo;
		const struct table_header *table;

		if (left < sizeof(*entry) || entry->type >= old->header->n_tables)
			return refuse_records(why, "the redo area is damaged");
		table = &old->header->tables[entry->type];
		size = align_up(sizeof(*entry) + table->record_size, 8);
		if (size > left || !entry->index || entry->index > table->n)
			return refuse_records(why, "the redo area is damaged");
	}
	return 0;
}

static int old_map(struct records *old, int fd, uint64_t *ret_resident, struct text *why)
{
	struct stat stat;
	void *memory;
	off_t size;

	if (fstat(fd, &stat) < 0)
		return -errno;
	size = stat.st_size;
	*ret_resident = (uint64_t)stat.st_blocks * 512;
	if (size < 4096)
		return refuse_records(why, "these are no records of gpumem");
	memory = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_NORESERVE, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	*old = (struct records){
		.fd = -1, .memory = memory, .size = (uint64_t)size, .header = memory
	};
	return 0;
}

/*
 * Copies records without a look at each: the kernel makes the pages with their bytes in
 * them. From index 0 on, where a page begins. Returns: 0; -ENOMEM.
 */
static int table_copy(struct records *records, enum record_type type,
		      const struct records *old, uint32_t n)
{
	const uint8_t *from = (const uint8_t *)record_at(old, type, 0);
	off_t to = (off_t)records->header->tables[type].offset;

	for (uint64_t left = (n + (uint64_t)1) * old->header->tables[type].record_size;
	     left;) {
		ssize_t written = pwrite(records->fd, from, left, to);

		if (written <= 0)
			return -ENOMEM;
		from += written;
		to += written;
		left -= (uint64_t)written;
	}
	return 0;
}

/* The records of an older program are smaller: what they lack is 0. */
static void table_convert(struct records *records, enum record_type type,
			  const struct records *old, uint32_t n)
{
	for (uint32_t index = 1; index <= n; index++)
		memcpy(record_at(records, type, index), record_at(old, type, index),
		       old->header->tables[type].record_size);
}

static int records_copy(struct records *records, const struct records *old)
{
	records->header->boot = old->header->boot + 1;
	for (uint32_t i = 0; i < old->header->n_tables; i++) {
		const struct table_header *from = &old->header->tables[i];
		struct table_header *table = &records->header->tables[i];
		enum record_type type = (enum record_type)i;
		int r = 0;

		if (!from->n)
			continue;
		if (from->record_size == table->record_size)
			r = table_copy(records, type, old, from->n);
		if (r == 0 && !records_grow(records, type, from->n))
			r = -ENOMEM;
		if (r < 0)
			return r;
		if (from->record_size != table->record_size)
			table_convert(records, type, old, from->n);
		table->n = from->n;
		for (uint32_t index = 1; index <= from->n; index++) {
			if (record_at(records, type, index)->state != RECORD_LIVE)
				records->free[i][records->n_free[i]++] = index;
		}
	}
	return 0;
}

struct copying {
	struct records *records;
	const struct records *old;
	pthread_t thread;
	bool has_thread;
	int r;
};

static void *copying_main(void *userdata)
{
	struct copying *copying = userdata;

	copying->r = records_copy(copying->records, copying->old);
	return NULL;
}

/* Whether the old records can be read as ours: they are of this program, or of its like.
 */
static bool is_layout(const struct records *old)
{
	bool same = old->header->n_tables == N_RECORD_TYPES;

	for (int i = 0; same && i < N_RECORD_TYPES; i++)
		same = old->header->tables[i].record_size == record_layouts[i].size;
	return same;
}

/* Copies and checks, at the same time if possible: both take long for many records. */
static int records_copy_checked(struct records *records, const struct records *old,
				struct text *why)
{
	struct copying copying = { .records = records, .old = old };
	int r = 0;

	copying.has_thread =
		is_layout(old) &&
		pthread_create(&copying.thread, NULL, copying_main, &copying) == 0;
	if (copying.has_thread) {
		r = records_check(old, why);
		pthread_join(copying.thread, NULL);
		r = r ?: copying.r;
	} else {
		r = records_copy(records, old);
		if (r == 0)
			r = records_check(records, why);
	}
	return r;
}

int records_open(struct records **ret_records, int fd, struct text *why)
{
	struct records *records = NULL, old = { 0 };
	uint64_t resident = 0;
	int r = old_map(&old, fd, &resident, why);

	if (r < 0)
		return r;
	r = old_check_header(old.header, old.size, resident, why);
	if (r == 0)
		r = old_check_redo(&old, why);
	if (r == 0) {
		records_redo(&old);
		r = records_new(&records);
	}
	if (r == 0)
		r = records_copy_checked(records, &old, why);
	munmap(old.memory, old.size);
	if (r == 0)
		r = record_texts_check(records, why);
	if (r < 0) {
		records_free(records);
		return r;
	}
	*ret_records = records;
	return 0;
}
