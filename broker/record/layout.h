/* SPDX-License-Identifier: MIT */
/* The memfd, for the files of this folder. */
#pragma once

#include <pthread.h>

#include "base/def.h"
#include "base/token_ends.h"
#include "record/records.h"

#define RECORDS_MAGIC	"gpumem records\n"
#define RECORDS_VERSION 1

/* Bytes that are made resident at a time: a missing page could not be had later. */
#define RECORDS_STEP (32u << 10)

struct table_header {
	char name[16];
	uint32_t record_size;
	uint32_t capacity;
	uint64_t offset;
	uint32_t n; /* indices ever used, from 1 on */
	uint32_t reserved;
};

struct redo_entry {
	uint32_t type;
	uint32_t index;
	/* the record's bytes */
};

struct records_header {
	char magic[16];
	uint32_t version;
	uint32_t boot;
	uint32_t n_tables;
	uint32_t committed; /* bytes of the redo area to be copied home */
	uint64_t redo_offset;
	uint64_t redo_size;
	struct table_header tables[32]; /* older programs had room for 16 */
	struct token_ends token_ends;	/* older programs left zeros */
};

_Static_assert(N_RECORD_TYPES <= 32, "each type has a table");
_Static_assert(sizeof(struct records_header) <= 4096,
	       "the redo area is behind the header");

struct records {
	int fd;
	uint8_t *memory;
	uint64_t size;
	struct records_header *header;
	pthread_mutex_t lock; /* recursive: held from begin to end */
	unsigned int depth;   /* of begins; lock, like all below */
	uint32_t n_redo;      /* bytes */
	uint32_t n_resident[N_RECORD_TYPES];
	uint32_t *free[N_RECORD_TYPES]; /* indices to be used again */
	uint32_t n_free[N_RECORD_TYPES];
	uint32_t n_let_go[N_RECORD_TYPES]; /* behind them: free when the group ends */
};

struct record_layout {
	const char *name;
	uint32_t size;
	uint32_t capacity;
};

extern const struct record_layout record_layouts[N_RECORD_TYPES];

/*
 * Frees a record at the end of the group, without writing its state: for records that
 * live as long as others name them.
 */
void records_let_go(struct records *records, enum record_type type, uint32_t index);

/*
 * Makes the pages of records up to the index and some more, and room in the list of free
 * ones. Returns: whether there is memory, and the table has such an index.
 */
bool records_grow(struct records *records, enum record_type type, uint32_t index);

/* Copies the committed records to their places. May be repeated. */
void records_redo(struct records *records);

/*
 * The checks of all records, in n pieces that may run side by side; the longest are the
 * first.
 */
struct record_checks {
	const struct records *records;
	struct record_check *pieces;
	uint32_t n;
	uint8_t *text_marks; /* by index of a text: whether a record names it */
	struct seen_names *names;
};

/* Returns: 0; -ENOMEM. Either way record_checks_deinit() follows. */
int record_checks_init(struct record_checks *checks, const struct records *records);
void record_checks_deinit(struct record_checks *checks);
void record_checks_run(struct record_checks *checks, uint32_t i);

/* The result of all pieces. Returns: 0; -EINVAL with a sentence; -ENOMEM. */
int record_checks_result(const struct record_checks *checks, struct text *why);

/* The place of a record, live or not. */
static inline struct record_head *record_at(const struct records *records,
					    enum record_type type, uint32_t index)
{
	const struct table_header *table = &records->header->tables[type];

	return (struct record_head *)(records->memory + table->offset +
				      (uint64_t)index * table->record_size);
}
