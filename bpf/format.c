/* SPDX-License-Identifier: MIT */
#include "format.h"

#include <inttypes.h>
#include <string.h>

void format_size(uint64_t bytes, char ret_text[16])
{
	static const char units[] = " KMGTPE";
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 999.5 && unit + 2 < sizeof units) {
		value /= 1024;
		unit++;
	}
	if (unit == 0)
		snprintf(ret_text, 16, "%" PRIu64, bytes);
	else
		snprintf(ret_text, 16, value < 9.95 ? "%.1f%c" : "%.0f%c", value,
			 units[unit]);
}

/* Decodes a UTF-8 sequence. Returns: the length, with the character; 0 for other
 * bytes. */
static size_t utf8_decode(const unsigned char *bytes, size_t n, uint32_t *ret_character)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char first = bytes[0];
	size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	uint32_t character = length == 1 ? first : first & (0x7fu >> length);

	if (length > n || (first >= 0x80 && first < 0xc0) || first > 0xf4)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		character = character << 6 | (bytes[i] & 0x3f);
	}
	if (character < least[length] || character > 0x10ffff ||
	    (character >= 0xd800 && character < 0xe000))
		return 0;
	*ret_character = character;
	return length;
}

static bool is_printable(uint32_t character)
{
	static const struct {
		uint32_t first, last;
	} unprintable[] = {
		{ 0x00, 0x1f },	      /* C0 */
		{ 0x7f, 0x9f },	      /* DEL and C1 */
		{ 0x61c, 0x61c },     /* directions of writing */
		{ 0x200b, 0x200b },   /* no width; joiners have a use in words */
		{ 0x200e, 0x200f },   /* directions of writing */
		{ 0x2028, 0x202e },   /* ends of lines, and directions of writing */
		{ 0x2060, 0x206f },   /* no width, and directions of writing */
		{ 0xfeff, 0xfeff },   /* no width */
		{ 0xfff9, 0xfffb },   /* marks of annotations */
		{ 0xe0000, 0xe0fff }, /* tags, without a width */
	};

	for (size_t i = 0; i < ARRAY_SIZE(unprintable); i++)
		if (character >= unprintable[i].first && character <= unprintable[i].last)
			return false;
	return true;
}

void format_name(FILE *file, const char *name, size_t max, int width)
{
	const unsigned char *bytes = (const unsigned char *)name;
	size_t n = strnlen(name, max);

	for (size_t i = 0; i < n;) {
		uint32_t character;
		size_t length = utf8_decode(bytes + i, n - i, &character);

		if (length && is_printable(character)) {
			fwrite(bytes + i, 1, length, file);
			i += length;
			width--;
			continue;
		}
		for (size_t end = i + MAX(length, (size_t)1); i < end; i++)
			width -= fprintf(file, "\\x%02x", bytes[i]);
	}
	fprintf(file, "%*s", MAX(width, 0), "");
}

void format_stack(FILE *file, const struct stack *stack, int indent)
{
	for (size_t i = 0; i < stack->n; i++) {
		fprintf(file, "%*s", indent, "");
		format_name(file, stack->frames[i], SIZE_MAX, 0);
		putc('\n', file);
	}
}

#define STARS 40

void format_histogram(FILE *file, const char *what, const __u64 *slots, size_t n)
{
	static const char stars[] = "****************************************";
	size_t first = 0, last = n;
	uint64_t most = 0;

	while (first < n && !slots[first])
		first++;
	while (last > first && !slots[last - 1])
		last--;
	if (first == last)
		return;
	for (size_t i = first; i < last; i++)
		most = MAX(most, (uint64_t)slots[i]);
	fprintf(file, "  %23s : count\n", what);
	for (size_t i = first; i < last; i++) {
		int length = (int)((slots[i] * STARS + most - 1) / most);

		fprintf(file, "%12" PRIu64 " -> %-12" PRIu64 "%7" PRIu64 " |%-*.*s|\n",
			i ? UINT64_C(1) << i : 0, (UINT64_C(2) << i) - 1,
			(uint64_t)slots[i], STARS, length, stars);
	}
}
