/* SPDX-License-Identifier: MIT */
/*
 * A growing text, for attribute files, answers and sentences.
 *
 * Calls don't report allocation failures; text_failed() tells at the end.
 */
#pragma once

#include "base/def.h"

struct text {
	char *data; /* NUL terminated; NULL until something is added */
	size_t length;
	size_t capacity;
	bool failed;
};

#define TEXT_INIT     \
	(struct text) \
	{             \
		0     \
	}

/* Frees the memory; the text can be used again. */
void text_deinit(struct text *text);

/* Empties the text and keeps its memory. */
void text_clear(struct text *text);

void text_add(struct text *text, const char *bytes, size_t length);
void text_printf(struct text *text, const char *format, ...) _printf_(2, 3);
/* Adds a number in decimal: ten times as fast, for texts of thousands of numbers. */
void text_add_number(struct text *text, uint64_t number);

/*
 * Adds words to a line that has `column` characters already, and the newline. Where the
 * line would pass 80 columns a new line begins, with `indent` blanks.
 */
void text_fold(struct text *text, size_t column, size_t indent, const char *words);

/*
 * Looks at the first of n bytes, one at least. *ret_plain: whether a character there may
 * stand in a plain string. Returns: the bytes of the character; 0: they are not UTF-8.
 */
size_t character_look(const char *bytes, size_t n, bool *ret_plain);

/*
 * Whether a string is UTF-8 without control characters, separators of lines (U+2028,
 * U+2029), and characters without a width or for the direction of writing. U+0080 to
 * U+009F are control characters, too: terminals obey them, and some the bytes 0x80 to
 * 0x9f alone.
 */
bool string_is_plain(const char *string);

/* Whether a string is plain, not empty, and without a blank of any width. */
bool string_is_word(const char *string);

/*
 * Turns each `\` with three octal digits into the byte, in place. So the kernel writes
 * blanks, tabs, newlines and backslashes in the words of /proc/PID/mounts and mountinfo.
 */
void string_unescape(char *string);

/* Adds a string; bytes other than printable ASCII are added as \xHH. */
void text_add_printable(struct text *text, const char *string);

/* As text_add_printable(), for a column of a line: blanks are escaped too. */
void text_add_word(struct text *text, const char *string);

/* Adds a string for a terminal: a plain one unchanged, others as text_add_printable(). */
void text_add_plain(struct text *text, const char *string);

/* The text as a string, "" when empty. Owned by the text. */
const char *text_string(const struct text *text);

/* FNV-1a of the bytes: the same in every process; collisions can be made on purpose. */
uint64_t text_hash(const char *bytes, size_t length);

/* Adds a UTC time in RFC 3339, seconds resolution (2026-11-20T10:00:00Z). */
void text_time(struct text *text, int64_t seconds);

static inline bool text_failed(const struct text *text)
{
	return text->failed;
}

#define _cleanup_text_ _cleanup_(text_deinit)
