/* SPDX-License-Identifier: MIT */
#include "table.h"

#include <errno.h>
#include <stdio.h>

#define SHRINKS 0.1 /* the part of the terminal that a long column keeps */

void table_init(struct table *table, const char *name, enum style style,
		const struct column *columns, size_t n_columns)
{
	*table = (struct table){ .scols = scols_new_table(), .style = style };
	if (!table->scols || scols_table_set_name(table->scols, name))
		table->failed = true;
	for (size_t i = 0; i < n_columns; i++)
		table_column(table, columns[i].name, columns[i].flags);
}

void table_deinit(struct table *table)
{
	scols_unref_table(table->scols);
	table->scols = NULL;
}

void table_column(struct table *table, const char *name, unsigned int flags)
{
	bool skip = flags & COLUMN_HIDDEN ||
		    (flags & COLUMN_PEOPLE && table->style != STYLE_PEOPLE);
	int scols_flags = (flags & COLUMN_NUMBER ? SCOLS_FL_RIGHT : 0) |
			  (flags & COLUMN_LONG ? SCOLS_FL_TRUNC : 0);
	struct libscols_column *column;

	if (table->n_skips < ARRAY_SIZE(table->skips))
		table->skips[table->n_skips++] = skip;
	if (skip)
		return;
	column = scols_table_new_column(table->scols, name,
					flags & COLUMN_LONG ? SHRINKS : 0, scols_flags);
	if (!column || (flags & COLUMN_NUMBER &&
			scols_column_set_json_type(column, SCOLS_JSON_NUMBER)))
		table->failed = true;
	table->n_columns++;
}

void table_line(struct table *table)
{
	table->line = scols_table_new_line(table->scols, NULL);
	table->n_cells = 0;
	table->n_columns = 0;
	if (!table->line)
		table->failed = true;
}

void table_cell_color(struct table *table, const char *word, const char *color)
{
	size_t column = table->n_cells++;

	if (column < ARRAY_SIZE(table->skips) && table->skips[column])
		return;
	column = table->n_columns++;
	if (!word && table->style == STYLE_JSON)
		return; /* null */
	if (!table->line ||
	    scols_line_set_data(table->line, column,
				word
					?: table->style == STYLE_PEOPLE ? "?"
									: "") ||
	    (color &&
	     scols_cell_set_color(scols_line_get_cell(table->line, column), color)))
		table->failed = true;
}

void table_cell(struct table *table, const char *word)
{
	table_cell_color(table, word, NULL);
}

void table_number(struct table *table, uint64_t number)
{
	char word[32];

	snprintf(word, sizeof word, "%llu", (unsigned long long)number);
	table_cell(table, word);
}

const char *size_people(char text[64], uint64_t size)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB" };
	double value = (double)size;
	size_t unit = 0;

	/* 1023.96 would be printed as 1024.0 */
	for (; value >= (unit ? 1023.95 : 1024) && unit + 1 < ARRAY_SIZE(units); unit++)
		value /= 1024;
	snprintf(text, 64, "%.*f %s", value == (double)(uint64_t)value ? 0 : 1, value,
		 units[unit]);
	return text;
}

void table_size(struct table *table, uint64_t size)
{
	char word[64];

	if (size == UINT64_MAX)
		table_cell(table, NULL);
	else if (table->style == STYLE_PEOPLE)
		table_cell(table, size ? size_people(word, size) : "-");
	else
		table_number(table, size);
}

/*
 * Words between tabs; libsmartcols would fill columns up with blanks. Returns: 0;
 * -ENOMEM.
 */
static int print_tabs(struct table *table, struct text *text)
{
	size_t n_columns = scols_table_get_ncols(table->scols);
	struct libscols_iter *lines = scols_new_iter(SCOLS_ITER_FORWARD);
	struct libscols_line *line;

	if (!lines)
		return -ENOMEM;
	for (size_t i = 0; i < n_columns; i++)
		text_printf(
			text, "%s%s", i ? "\t" : "",
			scols_column_get_name(scols_table_get_column(table->scols, i)));
	text_printf(text, "\n");
	while (scols_table_next_line(table->scols, lines, &line) == 0) {
		for (size_t i = 0; i < n_columns; i++) {
			const char *word =
				scols_cell_get_data(scols_line_get_cell(line, i));

			text_printf(text, "%s%s", i ? "\t" : "", word ?: "");
		}
		text_printf(text, "\n");
	}
	scols_free_iter(lines);
	return 0;
}

int table_print(struct table *table, struct text *text, size_t width, bool colors)
{
	_cleanup_free_ char *printed = NULL;

	if (table->failed)
		return -ENOMEM;
	if (table->style == STYLE_TABS) {
		int r = print_tabs(table, text);

		return r ?: text_failed(text) ? -ENOMEM : 0;
	}
	if (table->style == STYLE_PEOPLE && scols_table_is_empty(table->scols))
		return 0;
	scols_table_enable_json(table->scols, table->style == STYLE_JSON);
	scols_table_enable_colors(table->scols, colors);
	if (width) {
		scols_table_set_termforce(table->scols, SCOLS_TERMFORCE_ALWAYS);
		scols_table_set_termwidth(table->scols, width);
	}
	if (scols_print_table_to_string(table->scols, &printed))
		return -ENOMEM;
	text_printf(text, "%s%s", printed ?: "",
		    table->style == STYLE_PEOPLE ? "\n" : "");
	return text_failed(text) ? -ENOMEM : 0;
}
