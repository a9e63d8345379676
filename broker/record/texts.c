/* SPDX-License-Identifier: MIT */
#include "record/texts.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "record/layout.h"

uint32_t record_text_add(struct records *records, const char *bytes, size_t length)
{
	uint32_t next = 0;

	if (!records || !length || length > RECORD_TEXT_MAX)
		return 0;
	/* From the end, since each record names the next. */
	for (size_t at = (length - 1) / RECORD_TEXT_BYTES + 1; at > 0; at--) {
		size_t begin = (at - 1) * RECORD_TEXT_BYTES;
		size_t n = MIN(length - begin, (size_t)RECORD_TEXT_BYTES);
		uint32_t index = records_add(records, RECORD_TEXT);
		struct text_record *record;

		if (!index) {
			record_text_drop(records, next);
			return 0;
		}
		record = (struct text_record *)record_at(records, RECORD_TEXT, index);
		record->next = next;
		memcpy(record->bytes, bytes + begin, n);
		memset(record->bytes + n, 0, RECORD_TEXT_BYTES - n);
		record->head.state = RECORD_LIVE;
		next = index;
	}
	return next;
}

static const struct text_record *text_at(const struct records *records, uint32_t index)
{
	return records_get(records, RECORD_TEXT, index);
}

void record_text_drop(struct records *records, uint32_t index)
{
	const struct text_record *record = text_at(records, index);

	records_begin(records);
	for (; record; record = text_at(records, index)) {
		records_let_go(records, RECORD_TEXT, index);
		index = record->next;
	}
	records_end(records);
}

void record_text_show(const struct records *records, uint32_t index, struct text *text)
{
	const struct text_record *record = text_at(records, index);

	for (; record; record = text_at(records, record->next))
		text_add(text, record->bytes, strnlen(record->bytes, RECORD_TEXT_BYTES));
}

/* The fields that name texts. */
static const struct {
	enum record_type type;
	size_t offset;
	const char *name;
} fields[] = {
	{ RECORD_ALLOCATION, offsetof(struct allocation_record, tag), "tag" },
	{ RECORD_FAILURE, offsetof(struct failure_record, text), "line" },
	{ RECORD_MODULE, offsetof(struct module_record, log), "log" },
	{ RECORD_FUNCTION, offsetof(struct function_record, text), "parameters" },
	{ RECORD_LIFETIME, offsetof(struct lifetime_record, key), "key" },
	{ RECORD_STREAM, offsetof(struct stream_record, failure), "failure" },
	{ RECORD_ORIGIN, offsetof(struct origin_record, cgroup), "cgroup" },
};

static uint32_t field_of(const void *record, size_t offset)
{
	uint32_t index;

	memcpy(&index, (const char *)record + offset, sizeof(index));
	return index;
}

void record_texts_print(const struct records *records, enum record_type type,
			const void *record, struct text *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		_cleanup_text_ struct text words = TEXT_INIT;
		uint32_t index =
			fields[i].type == type ? field_of(record, fields[i].offset) : 0;

		if (!index)
			continue;
		record_text_show(records, index, &words);
		text_printf(text, ", %s ", fields[i].name);
		text_add_printable(text, text_string(&words));
	}
}

/* ---- the texts of a dead broker ---- */

/* Marks the records of a text. Returns: 0; -EINVAL. */
static int mark(const struct records *records, uint32_t index, uint8_t *marks)
{
	size_t n = 0;

	while (index) {
		const struct text_record *record = text_at(records, index);

		if (!record || marks[index] || n++ * RECORD_TEXT_BYTES >= RECORD_TEXT_MAX)
			return -EINVAL;
		marks[index] = 1;
		index = record->next;
	}
	return 0;
}

int record_texts_mark(const struct records *records, uint8_t *marks, struct text *why)
{
	const char *record;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		enum record_type type = fields[i].type;

		for (uint32_t at = 1; (record = records_next(records, type, &at)); at++) {
			if (mark(records, field_of(record, fields[i].offset), marks) == 0)
				continue;
			text_printf(why, "%s record %u has no text of its own",
				    record_layouts[type].name, at);
			return -EINVAL;
		}
	}
	return 0;
}

void record_texts_drop_unmarked(struct records *records, const uint8_t *marks)
{
	for (uint32_t at = 1; records_next(records, RECORD_TEXT, &at); at++) {
		if (!marks[at])
			records_drop(records, RECORD_TEXT, at);
	}
}
