/* SPDX-License-Identifier: MIT */
/*
 * Tables, by libsmartcols: for people on a terminal, between tabs in a pipe, as JSON.
 */
#pragma once

#include "base/text.h"

#include <libsmartcols.h>

enum style {
	STYLE_PEOPLE,
	STYLE_TABS,
	STYLE_JSON,
};

enum column_flag {
	COLUMN_NUMBER = 1 << 0, /* right-aligned; a number of JSON */
	COLUMN_LONG = 1 << 1,	/* is cut where the terminal is too narrow */
	COLUMN_PEOPLE = 1 << 2, /* only for people */
	COLUMN_HIDDEN = 1 << 3, /* not shown */
};

struct column {
	const char *name;
	unsigned int flags; /* enum column_flag */
};

struct table {
	struct libscols_table *scols;
	struct libscols_line *line; /* the last line */
	enum style style;
	size_t n_columns;
	size_t n_cells; /* of the line */
	bool skips[32]; /* columns of the definition that are not shown */
	size_t n_skips;
	bool failed;
};

/* Makes a table with these columns, the first ones. */
void table_init(struct table *table, const char *name, enum style style,
		const struct column *columns, size_t n_columns);
void table_deinit(struct table *table);
void table_column(struct table *table, const char *name, unsigned int flags);

/* A new line; its cells follow in the order of the columns. A cell of NULL is unknown. */
void table_line(struct table *table);
void table_cell(struct table *table, const char *word);
void table_cell_color(struct table *table, const char *word, const char *color);
void table_number(struct table *table, uint64_t number);

/* A number of bytes; UINT64_MAX: unknown. */
void table_size(struct table *table, uint64_t size);

/* Adds the table to the text, `width` columns wide; for people nothing of an empty one.
 * Returns: 0; -ENOMEM. */
int table_print(struct table *table, struct text *text, size_t width, bool colors);

/* A size for people, rounded: `1.5 GiB`. */
const char *size_people(char text[64], uint64_t size);

#define _cleanup_table_ _cleanup_(table_deinit)
