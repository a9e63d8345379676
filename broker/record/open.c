/* SPDX-License-Identifier: MIT */
/*
 * The records of a dead broker are checked, and copied to a memfd of the next broker's
 * own. The old ones are never changed: if this broker dies, too, another reads them.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/jobs.h"
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

/* ---- the copy ---- */

#define PIECE_BYTES ((uint64_t)2 << 20)

/*
 * Copies a piece of a table without a look at each record. Threads that write() to one
 * file wait for each other; threads that make pages of the file do not. Returns: 0;
 * -ENOMEM.
 */
static int table_copy(struct records *records, enum record_type type,
		      const struct records *old, uint64_t from, uint64_t size)
{
	uint8_t *to = (uint8_t *)record_at(records, type, 0) + from;

	if (madvise(to, align_up(size, (uint64_t)4096), MADV_POPULATE_WRITE) < 0)
		return -ENOMEM;
	memcpy(to, (const uint8_t *)record_at(old, type, 0) + from, size);
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

/* Lists the free records. Returns: 0; -ENOMEM. */
static int table_list_free(struct records *records, enum record_type type,
			   const struct records *old)
{
	uint32_t n = old->header->tables[type].n;

	if (!n)
		return 0;
	records->free[type] = calloc(n, sizeof(uint32_t));
	if (!records->free[type])
		return -ENOMEM;
	for (uint32_t index = 1; index <= n; index++) {
		if (record_at(old, type, index)->state != RECORD_LIVE)
			records->free[type][records->n_free[type]++] = index;
	}
	return 0;
}

/*
 * Makes the pages of records, after a copy: earlier they would be filled twice. Returns:
 * 0; -ENOMEM.
 */
static int table_grow(struct records *records, enum record_type type, uint32_t n)
{
	if (n && !records_grow(records, type, n))
		return -ENOMEM;
	records->header->tables[type].n = n;
	return 0;
}

/* A part of a table. */
struct piece {
	enum record_type type;
	uint64_t from, size; /* bytes, from index 0 on, where a page begins */
	int r;
};

struct opening {
	struct records *records;
	const struct records *old;
	struct record_checks checks;
	struct piece *pieces;
	uint32_t n_pieces;
};

static uint64_t table_bytes(const struct records *old, int type)
{
	const struct table_header *table = &old->header->tables[type];

	return table->n ? (table->n + (uint64_t)1) * table->record_size : 0;
}

static int list_pieces(struct opening *opening)
{
	uint32_t n = 0;

	for (int i = 0; i < N_RECORD_TYPES; i++)
		n += (uint32_t)(table_bytes(opening->old, i) / PIECE_BYTES) + 1;
	opening->pieces = calloc(n, sizeof(*opening->pieces));
	if (!opening->pieces)
		return -ENOMEM;
	for (int i = 0; i < N_RECORD_TYPES; i++) {
		uint64_t size = table_bytes(opening->old, i);

		for (uint64_t from = 0; from < size; from += PIECE_BYTES)
			opening->pieces[opening->n_pieces++] = (struct piece){
				.type = (enum record_type)i,
				.from = from,
				.size = MIN(PIECE_BYTES, size - from),
			};
	}
	return 0;
}

/* The checks of names and slots take longest, and come first. */
static void opening_job(void *userdata, uint32_t i)
{
	struct opening *opening = userdata;
	struct piece *piece;

	if (i < opening->checks.n) {
		record_checks_run(&opening->checks, i);
		return;
	}
	piece = &opening->pieces[i - opening->checks.n];
	if (!piece->from)
		piece->r = table_list_free(opening->records, piece->type, opening->old);
	piece->r = piece->r
			   ?: table_copy(opening->records, piece->type, opening->old,
					 piece->from, piece->size);
}

/* Copies and checks at the same time: both take long for many records. */
static int copy_and_check(struct records *records, const struct records *old,
			  struct text *why)
{
	struct opening opening = { .records = records, .old = old };
	int r = list_pieces(&opening) ?: record_checks_init(&opening.checks, old);

	if (r == 0) {
		jobs_run(opening_job, &opening, opening.checks.n + opening.n_pieces,
			 JOBS_THREADS_MAX);
		r = record_checks_result(&opening.checks, why);
	}
	for (uint32_t i = 0; i < opening.n_pieces && r == 0; i++)
		r = opening.pieces[i].r;
	for (int i = 0; i < N_RECORD_TYPES && r == 0; i++)
		r = table_grow(records, (enum record_type)i, old->header->tables[i].n);
	if (r == 0)
		record_texts_drop_unmarked(records, opening.checks.text_marks);
	record_checks_deinit(&opening.checks);
	free(opening.pieces);
	return r;
}

/* The records of an older program can be checked when they are as large as ours. */
static int convert_and_check(struct records *records, const struct records *old,
			     struct text *why)
{
	struct record_checks checks = { 0 };
	int r = 0;

	for (uint32_t i = 0; i < old->header->n_tables && r == 0; i++) {
		enum record_type type = (enum record_type)i;
		uint32_t n = old->header->tables[i].n;

		r = table_list_free(records, type, old);
		if (r == 0)
			r = table_grow(records, type, n);
		if (r == 0)
			table_convert(records, type, old, n);
	}
	if (r == 0)
		r = record_checks_init(&checks, records);
	for (uint32_t i = 0; i < checks.n && r == 0; i++)
		record_checks_run(&checks, i);
	if (r == 0)
		r = record_checks_result(&checks, why);
	if (r == 0)
		record_texts_drop_unmarked(records, checks.text_marks);
	record_checks_deinit(&checks);
	return r;
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

/* Older programs gave 2^20 generations and 2^37 serials to each of 4096 brokers. */
static struct token_ends token_ends_of(const struct records_header *old)
{
	if (old->token_ends.generations)
		return old->token_ends;
	return (struct token_ends){
		.serials = (uint64_t)((old->boot + 1) & 0xfff) << 37,
		.generations = (old->boot + 1) << 20 | 1,
	};
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
	if (r == 0) {
		records->header->boot = old.header->boot + 1;
		records->header->token_ends = token_ends_of(old.header);
		r = is_layout(&old) ? copy_and_check(records, &old, why)
				    : convert_and_check(records, &old, why);
	}
	munmap(old.memory, old.size);
	if (r < 0) {
		records_free(records);
		return r;
	}
	*ret_records = records;
	return 0;
}
