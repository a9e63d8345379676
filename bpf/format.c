/* SPDX-License-Identifier: MIT */
#include "format.h"

#include "base/text.h"

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

void format_name(FILE *file, const char *name, size_t max, int width)
{
	size_t n = strnlen(name, max);

	for (size_t i = 0; i < n;) {
		bool is_plain;
		size_t length = character_look(name + i, n - i, &is_plain);

		if (is_plain) {
			fwrite(name + i, 1, length, file);
			i += length;
			width--;
			continue;
		}
		for (size_t end = i + MAX(length, (size_t)1); i < end; i++)
			width -= fprintf(file, "\\x%02x", (unsigned char)name[i]);
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
