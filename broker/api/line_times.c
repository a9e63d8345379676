/* SPDX-License-Identifier: MIT */
#include "api/line_times.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/verb_table.h"
#include "record/records.h"

_Static_assert(sizeof(struct histogram) <= RECORD_TIMES_WORDS * sizeof(uint64_t),
	       "a histogram fits its record");

void line_times_init(struct line_times *times)
{
	for (size_t i = 0; i < VERBS_MAX; i++)
		times->verbs[i] = &times->own[i];
}

/* Returns: 0 for none. */
static uint32_t record_find(const struct records *records, const char *verb)
{
	const struct times_record *record;

	for (uint32_t i = 1; (record = records_next(records, RECORD_TIMES, &i)); i++) {
		if (strcmp(record->verb, verb) == 0)
			return i;
	}
	return 0;
}

static uint32_t record_new(struct records *records, const char *verb)
{
	uint32_t index = records_add(records, RECORD_TIMES);
	struct times_record record = { 0 };

	snprintf(record.verb, sizeof(record.verb), "%s", verb);
	records_save(records, RECORD_TIMES, index, &record);
	return index;
}

int line_times_keep_records(struct line_times *times, struct records *records)
{
	const struct verb *verbs;
	size_t n;

	verbs = verb_table(&n);
	assert(n <= VERBS_MAX);
	for (size_t i = 0; i < n; i++) {
		uint32_t index = record_find(records, verbs[i].name);
		struct times_record *record;

		if (!index)
			index = record_new(records, verbs[i].name);
		record = records_place(records, RECORD_TIMES, index);
		if (!record)
			return -ENOMEM;
		times->verbs[i] = (struct histogram *)record->words;
	}
	return 0;
}

void line_times_add(struct line_times *times, const struct verb *verb, uint64_t ns)
{
	const struct verb *verbs;
	size_t n;

	verbs = verb_table(&n);
	if (verb >= verbs && verb < verbs + n)
		histogram_add(times->verbs[verb - verbs], ns);
}
