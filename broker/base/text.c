/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void text_deinit(struct text *text)
{
	free(text->data);
	*text = TEXT_INIT;
}

void text_clear(struct text *text)
{
	text->length = 0;
	text->failed = false;
	if (text->data)
		text->data[0] = '\0';
}

/* Of a text's bytes. Below, no sum and no doubling of lengths overflows. */
#define LENGTH_MAX (SIZE_MAX / 4)

/* Makes room for length more bytes and the NUL. */
static bool text_reserve(struct text *text, size_t length)
{
	size_t capacity;
	char *data;

	if (length > LENGTH_MAX - text->length)
		text->failed = true;
	if (text->failed)
		return false;
	if (text->length + length < text->capacity)
		return true;

	capacity = MAX((size_t)256, text->capacity);
	while (capacity <= text->length + length)
		capacity *= 2;
	data = realloc(text->data, capacity);
	if (!data) {
		text->failed = true;
		return false;
	}
	text->data = data;
	text->capacity = capacity;
	return true;
}

void text_add(struct text *text, const char *bytes, size_t length)
{
	if (!text_reserve(text, length))
		return;
	if (length)
		memcpy(text->data + text->length, bytes, length);
	text->length += length;
	text->data[text->length] = '\0';
}

void text_printf(struct text *text, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length < 0) {
		text->failed = true;
		return;
	}
	if (!text_reserve(text, (size_t)length))
		return;
	va_start(args, format);
	vsnprintf(text->data + text->length, (size_t)length + 1, format, args);
	va_end(args);
	text->length += (size_t)length;
}

#define TEXT_COLUMNS 80

void text_add_number(struct text *text, uint64_t number)
{
	char digits[20], *first = digits + sizeof(digits);

	do {
		*--first = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	text_add(text, first, (size_t)(digits + sizeof(digits) - first));
}

void text_fold(struct text *text, size_t column, size_t indent, const char *words)
{
	bool first = true;

	while (*words) {
		size_t length = strcspn(words, " ");

		if (!first && column + 1 + length > TEXT_COLUMNS) {
			text_printf(text, "\n%*s", (int)indent, "");
			column = indent;
		} else if (!first) {
			text_add(text, " ", 1);
			column++;
		}
		text_add(text, words, length);
		column += length;
		words += length;
		words += strspn(words, " ");
		first = false;
	}
	text_add(text, "\n", 1);
}

/* Returns: the bytes of the first character; 0: they are not UTF-8, or more than needed.
 */
static size_t character_parse(const char *bytes, size_t n, uint32_t *ret_character)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char first = (unsigned char)bytes[0];
	const size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	uint32_t character = length == 1 ? first : first & (0x7fu >> length);

	if (length > n || (first >= 0x80 && first < 0xc2) || first > 0xf4)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		character = character << 6 | (bytes[i] & 0x3fu);
	}
	*ret_character = character;
	return character < least[length] ? 0 : length;
}

/* A range of characters, both ends included. */
struct characters {
	uint32_t first, last;
};

/* Characters that a text has for no reader: they do something to what is around them. */
static const struct characters unplain[] = {
	{ 0, 0x1f }, /* control characters */
	{ 0x7f, 0x9f },
	{ 0xad, 0xad },	      /* a hyphen that is not shown */
	{ 0x34f, 0x34f },     /* no width */
	{ 0x61c, 0x61c },     /* directions of writing */
	{ 0x115f, 0x1160 },   /* blank letters */
	{ 0x17b4, 0x17b5 },   /* no width */
	{ 0x180e, 0x180e },   /* no width */
	{ 0x200b, 0x200b },   /* no width; joiners have a use in words */
	{ 0x200e, 0x200f },   /* directions of writing */
	{ 0x2028, 0x2029 },   /* separators of lines and paragraphs */
	{ 0x202a, 0x202e },   /* directions of writing */
	{ 0x2060, 0x206f },   /* no width, and directions of writing */
	{ 0x3164, 0x3164 },   /* a blank letter */
	{ 0xd800, 0xdfff },   /* halves of UTF-16 */
	{ 0xfeff, 0xfeff },   /* no width */
	{ 0xffa0, 0xffa0 },   /* a blank letter */
	{ 0xfff9, 0xfffb },   /* marks of annotations */
	{ 0x1bca0, 0x1bca3 }, /* no width */
	{ 0x1d173, 0x1d17a }, /* no width */
	{ 0xe0000, 0xe0fff }, /* tags, without a width */
	{ 0x110000, UINT32_MAX },
};

/* Blanks of all widths. */
static const struct characters blanks[] = {
	{ 0x20, 0x20 },	    { 0xa0, 0xa0 },	{ 0x1680, 0x1680 }, { 0x2000, 0x200a },
	{ 0x202f, 0x202f }, { 0x205f, 0x205f }, { 0x2800, 0x2800 }, { 0x3000, 0x3000 },
};

static bool is_one_of(const struct characters *ranges, size_t n, uint32_t character)
{
	for (size_t i = 0; i < n; i++)
		if (character >= ranges[i].first && character <= ranges[i].last)
			return true;
	return false;
}

size_t character_look(const char *bytes, size_t n, bool *ret_plain)
{
	uint32_t character = 0;
	const size_t length = character_parse(bytes, n, &character);

	*ret_plain = length && !is_one_of(unplain, ARRAY_SIZE(unplain), character);
	return length;
}

bool string_is_plain(const char *string)
{
	size_t n = strlen(string);
	bool plain = true;

	while (plain && n > 0) {
		const size_t length = character_look(string, n, &plain);

		string += length;
		n -= length;
	}
	return plain;
}

bool string_is_word(const char *string)
{
	if (!*string || !string_is_plain(string))
		return false;
	for (size_t n = strlen(string), length; n > 0; n -= length, string += length) {
		uint32_t character;

		length = character_parse(string, n, &character);
		if (is_one_of(blanks, ARRAY_SIZE(blanks), character))
			return false;
	}
	return true;
}

void string_unescape(char *string)
{
	char *to = string;

	for (const char *from = string; *from; to++) {
		unsigned int byte;

		if (*from == '\\' && strspn(from + 1, "01234567") >= 3 &&
		    sscanf(from + 1, "%3o", &byte) == 1) {
			*to = (char)byte;
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

static void add_escaped(struct text *text, const char *string, char first)
{
	for (const char *c = string; *c; c++) {
		if (*c >= first && *c <= '~')
			text_add(text, c, 1);
		else
			text_printf(text, "\\x%02x", (unsigned char)*c);
	}
}

void text_add_printable(struct text *text, const char *string)
{
	add_escaped(text, string, ' ');
}

void text_add_plain(struct text *text, const char *string)
{
	if (string_is_plain(string))
		text_add(text, string, strlen(string));
	else
		text_add_printable(text, string);
}

void text_add_word(struct text *text, const char *string)
{
	add_escaped(text, string, '!');
}

const char *text_string(const struct text *text)
{
	return text->data ? text->data : "";
}

uint64_t text_hash(const char *bytes, size_t length)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)bytes[i]) * 0x100000001b3ull;
	return hash;
}

void text_time(struct text *text, int64_t seconds)
{
	time_t when = (time_t)seconds;
	struct tm tm;

	gmtime_r(&when, &tm);
	text_printf(text, "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900,
		    tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
}
