/* SPDX-License-Identifier: MIT */
/*
 * Texts of any length, in records of RECORD_TEXT_BYTES each: most texts are short. A text
 * is known by the index of its first record, and has no NUL.
 *
 * The bytes of a text are written at once, outside of the group, since nothing refers to
 * a text before a record names it. The next broker frees texts not named by any record.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "record/types.h"

struct records;
struct text;

/* The longest text. */
#define RECORD_TEXT_MAX ((size_t)1 << 20)

/* Returns: the index of the text; 0: it is empty or too long, or there is no memory. */
uint32_t record_text_add(struct records *records, const char *bytes, size_t length);

/* Frees a text when the group ends; 0: nothing. */
void record_text_drop(struct records *records, uint32_t index);

/* Appends a text; 0: nothing. */
void record_text_show(const struct records *records, uint32_t index, struct text *text);

/* Prints the texts of a record, for people. */
void record_texts_print(const struct records *records, enum record_type type,
			const void *record, struct text *text);

/*
 * Checks the texts named by records, and marks all their records: a byte for each index
 * of a text, 0 before. Returns: 0; -EINVAL with a sentence.
 */
int record_texts_mark(const struct records *records, uint8_t *marks, struct text *why);

/* Frees the texts without a mark. */
void record_texts_drop_unmarked(struct records *records, const uint8_t *marks);
